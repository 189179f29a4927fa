"""Write a CycloneDX bill of materials of what is served: packages, Swagger UI, weights and, if asked, the system.

usage: python -m scripts.sbom OUT [--python INTERPRETER] [--system]

It runs where cyclonedx-bom is installed and describes the packages that another interpreter has, as far as they are
locked for the service. The page's checks are npm packages, which are not served and not listed
(scripts/page/package-lock.json has them). Nothing in the output depends on the time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("locks/service.lock", "locks/torch.lock", "locks/compiler.lock", "locks/ray.lock", "locks/mcp.lock")
SPECIFICATION = "1.6"
LICENCE = "Apache-2.0 AND CC-BY-SA-4.0 AND CC-BY-SA-3.0"
"""Of the code, of the weights that ship with it, and of the model that identifies languages."""
LLVM_LICENCE = "Apache-2.0 WITH LLVM-exception"
OWN = frozenset({"verso-translate", "verso-client"})
VENDORED = ROOT / "app" / "http" / "static" / "swagger-ui" / "README.md"
WEIGHTS = ROOT / "model" / "pretrained" / "verso-en-de.pt"
LANGUAGES = ROOT / "app" / "serving" / "language_identification" / "lid.176.ftz"


def canonical(name: str) -> str:
    """A name of a package as the lock files have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def served() -> frozenset[str]:
    """The names of the packages that the service installs."""
    texts = [(ROOT / lock).read_text(encoding="utf-8") for lock in LOCKS]
    return OWN | {canonical(name) for text in texts for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}


def python_packages(interpreter: str) -> dict[str, Any]:
    """The bill of an interpreter's packages, without those that are not served."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    command += ["--spec-version", SPECIFICATION, "--pyproject", str(ROOT / "pyproject.toml"), interpreter]
    process = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    bill: dict[str, Any] = json.loads(process.stdout)
    names = served()
    bill["components"] = [component for component in bill["components"] if canonical(component["name"]) in names]
    for component in bill["components"]:  # where an editable package lies on this machine
        links = component.get("externalReferences", [])
        component["externalReferences"] = [link for link in links if not link["url"].startswith("file:")]
    references = {component["bom-ref"] for component in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    bill["dependencies"] = [
        {**dependency, "dependsOn": sorted(references & set(dependency.get("dependsOn", ())))}
        for dependency in bill["dependencies"]
        if dependency["ref"] in references
    ]
    return bill


def vendored() -> list[dict[str, Any]]:
    """What is in the repository and has a licence of its own: Swagger UI, the weights, the model of languages."""
    match = re.search(r"`swagger-ui-dist` ([\d.]+\d)", VENDORED.read_text(encoding="utf-8"))
    if match is None:
        sys.exit(f"{VENDORED} does not say its version")
    swagger_ui = _component("swagger-ui-dist", match[1], f"pkg:npm/swagger-ui-dist@{match[1]}", "Apache-2.0")
    return [swagger_ui, _model(WEIGHTS, "CC-BY-SA-4.0"), _model(LANGUAGES, "CC-BY-SA-3.0")]


def _model(path: Path, licence: str) -> dict[str, Any]:
    return {
        "type": "machine-learning-model",
        "bom-ref": path.stem,
        "name": path.stem,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
        "licenses": [{"license": {"id": licence}}],
    }


def wheel_bill(version: str, compiler: str) -> dict[str, Any]:
    """The bill of a wheel: what is in the file itself. Its metadata names its dependencies.

    Args:
        version: Of the project.
        compiler: Version of the package ziglang, whose C++ library is linked into the compiled decoder.
    """
    own = _component("verso-translate", version, f"pkg:pypi/verso-translate@{version}", LICENCE)
    # libc++, libc++abi, libunwind and compiler-rt have no version but that of the compiler that has them.
    runtime = _component("llvm-cxx-runtime", compiler, f"pkg:pypi/ziglang@{compiler}", LLVM_LICENCE)
    components = [runtime, *vendored()]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "version": 1,
        "metadata": {"component": {**own, "type": "application"}},
        "components": components,
        "dependencies": [
            {"ref": own["bom-ref"], "dependsOn": sorted(component["bom-ref"] for component in components)}
        ],
    }


def system_packages() -> list[dict[str, Any]]:
    """The packages of a Debian system."""
    fields = "${Package} ${Version} ${Architecture}\\n"
    process = subprocess.run(["dpkg-query", "--show", f"--showformat={fields}"], stdout=subprocess.PIPE, check=True)
    rows = (line.split() for line in process.stdout.decode().splitlines())
    return [_component(name, version, f"pkg:deb/debian/{name}@{version}?arch={arch}") for name, version, arch in rows]


def _component(name: str, version: str, purl: str, licence: str | None = None) -> dict[str, Any]:
    stated = {"expression": licence} if licence and " " in licence else {"license": {"id": licence}}
    licences = {} if licence is None else {"licenses": [stated]}
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, **licences}


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description="write a CycloneDX bill of materials")
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the interpreter whose packages are described")
    parser.add_argument("--system", action="store_true", help="describe the packages of this Debian system, too")
    arguments = parser.parse_args()
    bill = python_packages(arguments.python)
    bill["components"] += [*vendored(), *(system_packages() if arguments.system else [])]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{arguments.out}: {len(bill['components'])} components")
    return 0


if __name__ == "__main__":
    sys.exit(main())
