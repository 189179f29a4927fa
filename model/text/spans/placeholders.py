"""Kinds of protected spans: placeholders of message catalogues, templates and mail programs."""

from __future__ import annotations

import html
import re

from model.text.spans.kind import LINE_BREAKS, SPACE, Kind

_NO_BRACE = rf"[^{{}}{LINE_BREAKS}]"
_IN_LINE = rf"[^{LINE_BREAKS}]"
# Flags, width, precision and length of a conversion: the middle of %-5.2f and %ld.
_FORMAT_FLAGS = r"[-+0#',]{0,5}(?:\d{1,4}|\*)?(?:\.(?:\d{1,4}|\*))?(?:hh|ll|[hlLqjzt])?"
_IN_QUOTES = rf"\"[^\"{LINE_BREAKS}]{{0,300}}\"|'[^'{LINE_BREAKS}]{{0,300}}'"
_ATTRIBUTE = rf"{SPACE}+[\w:.-]{{1,60}}=(?:{_IN_QUOTES}|&quot;[^&]{{0,300}}&quot;|[^\s\]\"']+)"

# Statements divide a text, as their order must stay; what is between them is a text of its own.
_STATEMENTS = "if|else|elif|elseif|elsif|unless|endif|for|endfor|foreach|end|while|endwhile|switch|case|block|endblock"
_INLINE_TAGS = "b|i|u|s|sup|sub|img|url|email|color|size|font"
_BLADE = (
    "(?:end)?(?:if|foreach|forelse|for|while|unless|isset|empty|auth|guest|can|section|switch|push|php)|else(?:if)?"
)

_SOUNDS = re.compile(
    "music|musik|laugh(?:s|ter)|lach(?:t|en)|gelächter|applau[su]s?e?|beifall|sigh?s|seufzt|gasps|screams|schreit|inaudible|"
    "unverständlich|silence|stille|noise|lärm|cheers|jubel|whispers|flüstert|sic|[a-zäöü]+(?:ing|ern|eln|[^n]en)"
    "|the|and|not|was|are|has|had|have|they|she|his|her|its|our|their|who|that|this|which|also|der|die|das|und|ist|war|hat|sie|nicht"
)

_AFTER_SENTENCE = re.compile(rf"(?:\A|[.!?…{LINE_BREAKS}]){SPACE}?\Z")
_BEFORE_SENTENCE = re.compile(rf"{SPACE}[A-ZÄÖÜ]|\Z|[{LINE_BREAKS}]")


def _not_a_letter(match: re.Match[str]) -> int:
    """The end of a reference to a character that is no letter; an apostrophe inside a word is like a letter."""
    character, (start, end) = html.unescape(match[0]), match.span()
    is_apostrophe = character in ("'", "’") and match.string[start - 1 : start].isalpha()
    return start if is_apostrophe or (len(character) == 1 and character.isalpha()) else end


def _bracketed(match: re.Match[str]) -> int:
    """The end of a placeholder such as ``[name]``; sounds of subtitles and what is a sentence of its own are texts."""
    text, (start, end) = match.string, match.span()
    word = match[0][1:-1]
    if not word.isalpha() or (word.isupper() and len(word) > 1):
        return end
    is_title = word[0].isupper() and _BEFORE_SENTENCE.match(text, end)
    if is_title and _AFTER_SENTENCE.search(text[max(0, start - 2) : start]):
        return start
    is_alone = text[start - 1 : start] in ("", "\n", "\r") and text[end : end + 1] in ("", "\n", "\r")
    return start if is_alone or len(word) < 3 or _SOUNDS.fullmatch(word.lower()) else end


# The rows are as compact as those of a table.
# fmt: off
KINDS = (
    Kind("statement of a template",
        rf"\{{\{{[~]?[#/^]{_NO_BRACE}{{1,300}}\}}\}}|\{{\{{[~-]?{SPACE}?else\b{_NO_BRACE}{{0,300}}\}}\}}"
        rf"|\{{%[-+]?{SPACE}*(?:{_STATEMENTS})\b{_NO_BRACE}{{0,300}}%\}}"
        rf"|\{{[#:/@][a-z]{_NO_BRACE}{{0,200}}\}}|\{{/?(?:if|else|elseif|foreach|section|literal)\b{_NO_BRACE}{{0,200}}\}}"
        rf"|</?[#@](?:[a-z][\w.]{{0,40}})[^<>{LINE_BREAKS}]{{0,300}}>|\[/?#[a-z]{{1,20}}[^\[\]{LINE_BREAKS}]{{0,300}}\]"
        rf"|<%{SPACE}*(?:{_STATEMENTS}|\}})[^%{LINE_BREAKS}]{{0,300}}%>"
        rf"|(?<![\w@])@(?:{_BLADE})\b(?:{SPACE}?\((?:[^(){LINE_BREAKS}]|\([^(){LINE_BREAKS}]*+\))*+\))?"
        rf"|(?<![\w#&])#(?:if|elseif|foreach|set)\([^(){LINE_BREAKS}]{{0,200}}\)|(?<![#&])#(?:end|else)(?!\w)",
        ("{", "<", "[#", "[/#", "@", "#"),
        ("⟦{{#if user}}⟧Hello⟦{{/if}}⟧", "⟦{% if x %}⟧Yes⟦{% endif %}⟧", "⟦<#if user>⟧Hello⟦</#if>⟧ friend",
         "⟦{if $x}⟧Yes⟦{/if}⟧", "⟦{#each items as item}⟧Item⟦{/each}⟧", "⟦<% if x %>⟧Yes⟦<% end %>⟧",
         "⟦@if($user->name())⟧ Hello ⟦@endif⟧", "⟦#if($x)⟧Yes⟦#end⟧"),
        ("{if so}", "an if", "@iffy", "#ending"),
        role="boundary",
        used_by="Handlebars, Mustache, Jinja, Twig, Liquid, Django, FreeMarker, Velocity, Smarty, Svelte, ERB, Blade",
        trim=lambda match: match.start() if match[0].startswith("{if ") and "$" not in match[0] else match.end()),
    Kind("expression of a template",
        rf"\{{!!{_NO_BRACE}{{0,300}}!!\}}|<%(?:(?![%<]%|%>){_IN_LINE}){{0,500}}%>|<\?(?:php\b|=|xml\b)(?:(?!\?>|<\?){_IN_LINE}){{0,500}}\?>"
        rf"|\[%(?:(?!%\]|\[%){_IN_LINE}){{0,300}}%\]|\[\[\$\{{{_NO_BRACE}{{1,200}}\}}\]\]|\[\(\$\{{{_NO_BRACE}{{1,200}}\}}\)\]"
        rf"|\{{#{_NO_BRACE}{{1,300}}#\}}",
        ("{", "<%", "<?", "[%", "[[$", "[("),
        ("⟦<?php echo $name; ?>⟧ is logged in.", "You have ⟦<%= count %>⟧ books.", "Dear ⟦{!! $user !!}⟧, thanks.",
         "Hello ⟦[% user.name %]⟧!", "⟦[%key:ui::card::climate::currently%]⟧", "[[${user.name}]]", "{# a comment #}",
         "<%- include('x') %>"),
        ("a <? b", "5 [%] of all", "<% "),
        used_by="PHP, ERB, EJS, lodash, JSP, Blade, Template Toolkit, Thymeleaf, Jinja, Home Assistant"),
    Kind("placeholder in braces",
        rf"\{{\{{\$\{{{_NO_BRACE}{{1,100}}\}}{_NO_BRACE}{{0,100}}\}}\}}|[$#%]?\{{\{{{_NO_BRACE}{{0,300}}\}}\}}|\{{\{{\{{{_NO_BRACE}{{0,300}}\}}\}}\}}|\{{%{_NO_BRACE}{{0,300}}%\}}"
        rf"|[$#%*~]!?\{{{_NO_BRACE}{{0,300}}\}}|(?<!\w)@\{{{_NO_BRACE}{{0,300}}\}}|\{{{SPACE}?[^\s{{}}]{{0,100}}{SPACE}?\}}"
        rf"|\{{{SPACE}?[\w.$]{{1,60}}{SPACE}?(?:->|\|){_NO_BRACE}{{1,100}}\}}"
        rf"|\{{{SPACE}?(?:[A-Z]{{2,30}}|[\w.]{{1,60}})\({_NO_BRACE}{{0,200}}\}}|\{{['\"]{_NO_BRACE}{{1,200}}\)\}}",
        ("{",),
        ("{name}", "{}", "{0:.2f}", "{{ person.name | upper }}", "{{{raw}}}", "{% include x %}",
         "${user.name ?? 'you'}", "#{name}", "%{count}", "${{ github.ref }}", "$!{name}", "{ $name }",
         "{ NUMBER($x, digits: 2) }", "{x -> f:format.raw()}", "{', '.join(x)}", "{!Contact.Name}", "@{/login}",
         "{{${first_name}}}"),
        ("{see the note below}",),
        used_by="ICU, i18next, Angular, Vue I18n, Symfony, .NET, Python, Flutter, Fluent, TYPO3, HubSpot, Braze"),
    Kind("format specifier",
        rf"(?<!\w)(?<!\d )% \d{{0,2}}[dif](?![\w.-])"
        rf"|%(?:(?:\d{{1,2}}\$)?#@\w{{1,60}}@|(?<!\d%)(?<!\d\s%)L?\d{{1,2}}(?![\d$])"
        rf"|(?<!\d%)(?<!\d\s%)(?:\d{{1,2}}\$)?{_FORMAT_FLAGS}(?:[sd@]|[A-Za-z](?![A-Za-z]))"
        rf"|\d{{1,2}}\${_FORMAT_FLAGS}[A-Za-z@]"
        rf"|\([^\s()]{{1,100}}\){_FORMAT_FLAGS}[A-Za-z]|<\w{{1,60}}>{_FORMAT_FLAGS}[A-Za-z]"
        rf"|\[\d{{1,2}}\]{_FORMAT_FLAGS}[A-Za-z]|%=[^={LINE_BREAKS}]{{1,200}}=%%"
        r"|(?<!\d%)(?<!\d\s%)[A-Za-z_][\w.-]{0,60}%(?!\w)"
        r"|(?<!\w%)(?<!%%)(?<!\d\s%)[A-Za-z_]\w{2,60}(?![\w%])"
        r"|%[A-Za-z_][\w.]{0,60}%%"
        r"|[sd@](?![A-Za-z])|(?<!\d\s%)%)",
        ("%",),
        ("%s", "%1$s", "%(name)s", "%-5.2f", "%@", "%%", "%USER%", "%%city%%", "%,d", "%1$,.2f", "%1$#@items@",
         "%<price>.2f", "%lld", "%L1", "%[1]d", "⟦% d⟧ apples", "%%=v(@name)=%%",
         "Hello ⟦%user⟧, see", "⟦%d⟧x⟦%d⟧ pixels"),
        ("100 % sure, 50% discount, 100 %ige Lösung, 5%, 10 % der Kosten, 50 %ig, in % d. S.",),
        used_by="C, PHP, WordPress, Java, Android, iOS, Python, Qt, GTK, Ruby, Drupal, ActiveCampaign"),
    Kind("pattern of strftime",
        r"%[-_0^#EO]?[A-Za-z](?:[-/.:,T ]{1,2}%[-_0^#EO]?[A-Za-z](?![A-Za-z])){1,9}",
        ("%",),
        ("%Y-%m-%d %H:%M", "%H:%M"),
        ("%s and %s",),
        used_by="C, Python, Ruby, PHP"),
    Kind("placeholder after a colon",
        r"(?<![\w:/.]):[A-Za-z_]\w{1,60}(?![\w:/])",
        (":",),
        ("The ⟦:attribute⟧ field", "Hello ⟦:name⟧, you", "⟦:user_id⟧.", "Delete ⟦:resource⟧"),
        ("12:30:45", "a:b:c", "note:(one)", "::before", "Kolleg:innen", ":D", ":-p", ":1"),
        used_by="Laravel, Rails routes, Symfony, SQL"),
    Kind("reference to another message",
        r"(?<![\w@])@(?:\.\w+)?:(?:\([\w.]+\)|[\w.]*\w)|\$t\([^()\r\n]{1,200}\)|(?<!\w)@@\w{1,60}(?:@@)?|(?<!\w)§§\w{1,60}§§"
        r"|<<\w[\w .-]{0,60}>>",
        ("@:", "@.", "$t(", "@@", "§§", "<<"),
        ("@:settings.receive.saveToGallery", "⟦@:.hoursUnit⟧ ⟦@:.minutesUnit⟧", "$t(common.ok)", "@@name@@",
         "<<first name>>", "§§date§§",
         "@.lower:a"),
        ("a @: b",),
        used_by="Vue I18n, slang, i18next, Chrome extensions"),
    Kind("name between or after dollar signs",
        r"\$\$\w{1,60}\$\$|(?<![\w$])\$[A-Za-z_]\w{0,60}\$(?!\w{2})|(?<![\w$])\$!?[A-Za-z_]\w*(?:(?:->|::|\.)[A-Za-z_]\w*|\[['\"]?\w{1,60}['\"]?\])*(?:\(\))?"
        r"|\$\(\^?\w{1,60}\)|\$\[[^\[\]\r\n]{1,100}\]\$|\\\([A-Za-z_][\w.]{0,100}(?:\(\))?\)",
        ("$", "\\("),
        ("$$1$$", "⟦$USER$⟧, hi", "⟦$days$⟧d ⟦$hours$⟧h left", "$name", "$user->name", "$AAPL", "$(^Name)", "$!x.y",
         "$[FNAME|Friend]$", r"\(name)"),
        ("$5 and $10", "US$ 5", "£5.99, $100"),
        used_by="Chrome extensions, PHP, shells, Velocity, Perl, Dart, LibreOffice, NSIS, Zoho, Swift"),
    Kind("name in double brackets",
        rf"!?\[\[[^\[\]|{LINE_BREAKS}]{{1,200}}\]\]",
        ("[[",),
        ("[[customer]]", "[[Red House]]", "![[photo.png]]", "[[order_number]]"),
        ("[[a|b]]",),
        used_by="Mautic, Polymer, MediaWiki, Obsidian"),
    Kind("label of a link",
        rf"(\[\[[^\[\]{LINE_BREAKS}]{{1,200}}\|)[^\[\]|{LINE_BREAKS}]{{1,200}}(\]\])"
        rf"|(<[a-z]{{3,10}}:[^<>|\s]{{1,500}}\|)[^<>|{LINE_BREAKS}]{{1,200}}(>)",
        ("[[", "<"),
        ("⟦[[Help:Contents|⟧the help pages⟦]]⟧", "⟦[[File:Cat.jpg|thumb|⟧A cat⟦]]⟧",
         "see ⟦<https://a.example|⟧this link⟦>⟧ now"),
        ("[[a]]", "<a|b>"),
        parts=True, used_by="MediaWiki, Obsidian, Slack"),
    Kind("block of a forum",
        rf"\[/?(?:quote|code|list|center|left|right|justify|spoiler|table|tr|td|hr|h[1-6])(?:=[^\[\]{LINE_BREAKS}]{{1,200}})?\]",
        ("[",),
        ("⟦[quote=anna]⟧The door is open.⟦[/quote]⟧",),
        ("[quoted by Anna]",),
        role="boundary", used_by="BBCode"),
    Kind("shortcode or tag in brackets",
        rf"\[/?[A-Za-z][\w-]{{0,60}}(?:{_ATTRIBUTE})++{SPACE}*/?\]|\[[A-Za-z]{{1,20}}=[^\[\]{LINE_BREAKS}]{{1,300}}\]"
        r"|\[[a-z]\w{0,40},fallback=[^\[\]\r\n]{0,100}\]",
        ("[",),
        ('⟦[gallery ids="1,2,3" size="large"]⟧ See', "⟦[url=https://x.example]⟧Read",
         '[contact-form-7 id="12" title="A form"]'),
        ("[a b c]", "[x = 5]", "[see = below]"),
        role="edge", used_by="WordPress, BBCode, Campaign Monitor"),
    Kind("name in brackets",
        r"(?<![\w\]\[])\[(?:[a-z][a-z0-9]*+(?:[_.:-][\w.:-]{1,60})?|[A-Z][A-Z0-9_]+|[a-z]+[A-Z]\w*|[A-ZÄÖÜ][a-zäöüß]{2,30}"
        r"|~\w+|\d{1,3}|\.\.\.|…)\](?![(\[:])|[\[\]]\d{1,9}, ?(?:\d{1,9}|\*|Inf)[\[\]]:?",
        ("[", "]"),
        ("⟦[name]⟧ has sent ⟦[amount]⟧ Euro", "[first_name]", "[site:name]", "[FIRSTNAME]", "see ⟦[2]⟧.",
         "am ⟦[Datum]⟧.", "a ⟦[...]⟧ b", "⟦[1,19]⟧ a", "⟦[2,*]:⟧There", "⟦]1,Inf]⟧ many"),
        ("[laughs] Come on", "[Name]", "Stop! [Door] Come on", "[Tür] Komm!", "[The] house",
         "[the name]", "[x] done", "[singing] La", "[text](url)"),
        trim=_bracketed,
        used_by="WordPress, Drupal tokens, mail programs, intervals of Laravel and Symfony; note references"),
    Kind("end of a shortcode",
        rf"\[/(?!(?:{_INLINE_TAGS})\])[a-z][\w-]{{0,40}}\]",
        ("[/",),
        ("⟦[caption]⟧A cat⟦[/caption]⟧", "the video ⟦[/youtube]⟧"),
        ("[/ and]", "[/b]"),
        role="end", used_by="WordPress"),
    Kind("tag in brackets",
        rf"\[/(?:{_INLINE_TAGS})\]|\[(?:{_INLINE_TAGS}|li|\*)\](?=[^\s(\[])",
        ("[",),
        ("⟦[b]⟧bold⟦[/b]⟧ text", "⟦[url]⟧x⟦[/url]⟧"),
        ("[b] first", "[/ and]"),
        used_by="BBCode"),
    Kind("name between other signs",
        r"(?<![\w*|])\*\|[A-Z][\w:]{1,60}\|\*|(?<![^\s(„\"'])\|[A-Za-z]\w{0,60}\|(?![\w|])|(?<![\w~])~[A-Za-z_][\w.]{1,60}~(?![\w~])"
        r"|(?<![\w_])__\w+?__(?!\w)|(?<!\w)XX\d{1,3}XX(?!\w)|(?<!\S)![a-z_]\w{1,60}(?=[\s.,;:!?]|$)"
        r"|(?<!\w)%PRODUCTNAME\b|(?<!\w)§[0-9a-fk-or](?=[^\W\d]|§)",
        ("|", "~", "__", "XX", " !", "§", "%P"),
        ("*|FNAME|*", "The ⟦|product|⟧ is", "~name~", "__count__", "__MSG_name__", "⟦XX0XX⟧, you", "see ⟦!link⟧",
         "⟦§a⟧Hello"),
        ("§ 5 Abs. 2", "§5", "a | b", "||", "~ 5", "What?! No", "Hi!you", "__good night__", "|a|b|"),
        used_by="Mailchimp, RST, i18next, Drupal, Minecraft, translation tools that mask their own"),
    Kind("marker",
        r"(?<![\w#])#{2,3}[\w.-]{1,100}#{2,3}(?![\w#])",
        ("##",),
        ("###T01###", "##name##"),
        ("## Heading", "#1"),
        used_by="TYPO3"),
    Kind("reference to a character",
        r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,40});",
        ("&",),
        ("Tom ⟦&amp;⟧ Jerry", "on ⟦&rarr;⟧", "⟦&copy;⟧ 2020", "⟦&brandShortName;⟧ is", "⟦&user;⟧, hi"),
        ("AT&T; R&D", "Gr&uuml;n", "a & b;", "It&#39;s"),
        used_by="HTML, XML, DTD", trim=_not_a_letter),
    Kind("mention of a chat",
        r"<[@#!:/][^<>\s]{0,100}>|</?>|<a?:\w{1,40}:\d{1,25}>|<t:\d{1,20}(?::\w)?>",
        ("<",),
        ("<@U123>", "<#123>", "<!here>", "<:name:123>", "⟦<>⟧Hi⟦</>⟧"),
        ("a < b > c", "<3"),
        used_by="Slack, Discord, React fragments, Unreal Engine"),
)
"""Placeholders, in the order of preference where two kinds match the same characters."""
# fmt: on
