#!/usr/bin/env python3
"""Writes the corpus: one JSON file for each topic. README.md describes them.

    python3 vectors/ambiguous/make.py
"""

import base64
import gzip
import json
import zlib
from pathlib import Path

HERE = Path(__file__).parent
# The value that no upstream may read. A number of 16 digits, so that it is valid where JSON expects a number, too.
SECRET = "4111111111111111"
ALL, FORM_ONLY, JSON_ONLY, QUERY_ONLY = "/v1/cards", "/v1/form", "/v1/json", "/v1/query"
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
MULTIPART = "multipart/form-data; boundary=B"

TOPICS: dict[str, list[dict[str, object]]] = {}


def add(
    topic: str,
    name: str,
    about: str,
    body: str | bytes | None = None,
    kind: str | None = None,
    *fields: tuple[str, str],
    target: str = ALL,
    method: str = "POST",
    accepted: bool = False,
) -> None:
    """Text is written as UTF-8. `kind` is the Content-Type, which is absent where it is None."""
    case: dict[str, object] = {"name": f"{topic}-{name}", "about": about, "method": method, "target": target}
    if accepted:
        case["accepted"] = True
    case["fields"] = [*([["Content-Type", kind]] if kind is not None else []), *map(list, fields)]
    if body is not None:
        content = body.encode() if isinstance(body, str) else body
        try:
            case["body"] = content.decode("ascii")
        except UnicodeDecodeError:
            case["body_base64"] = base64.b64encode(content).decode()
    cases = TOPICS.setdefault(topic, [])
    if any(case["name"] == known["name"] for known in cases):
        raise ValueError(f"two cases are named {case['name']}")
    cases.append(case)


# Names of a field, percent-encoded as in a form or a query, that some reader takes for card_number.
NAMES = {
    "plain": ("card_number", "the name itself"),
    "dot": ("card.number", "PHP writes _ for ."),
    "dot-encoded": ("card%2Enumber", "PHP writes _ for ., decoded"),
    "space": ("card+number", "PHP writes _ for a space"),
    "space-encoded": ("card%20number", "PHP writes _ for a space"),
    "bracket-open": ("card[number", "PHP writes _ for a bracket that nothing closes"),
    "bracket-open-encoded": ("card%5Bnumber", "the same, encoded"),
    "dot-then-bracket": ("card.number[]", "PHP writes _ for . before brackets"),
    "space-then-index": ("card number[0]", "PHP writes _ for a space before brackets"),
    "bracket-then-index": ("card[number[0]", "PHP reads the name up to the first bracket that is closed"),
    "in-brackets": ("[card_number]", "qs and Rack read a name in brackets"),
    "in-brackets-encoded": ("%5Bcard_number%5D", "the same, encoded"),
    "in-brackets-nested": ("[[card_number]]", "brackets in brackets"),
    "in-brackets-then-index": ("[card_number][x]", "a name in brackets, and a member of it"),
    "in-brackets-then-list": ("[card_number][]", "a name in brackets, and a list"),
    "bracket-before": ("[card_number", "Rack drops brackets before a name"),
    "brackets-before": ("[]card_number", "Rack drops brackets before a name"),
    "brackets-before-many": ("[[]][card_number", "Rack drops brackets before a name"),
    "bracket-closed-before": ("]card_number", "Rack drops brackets before a name"),
    "bracket-closed-behind": ("card_number]", "Rack drops brackets behind a name"),
    "brackets-closed-behind": ("card_number]]", "Rack drops brackets behind a name"),
    "bracket-open-behind": ("card_number[", "an index that is not closed"),
    "bracket-closed-then-text": ("card_number]x", "text behind a closing bracket"),
    "list": ("card_number[]", "an element of a list"),
    "list-encoded": ("card_number%5B%5D", "an element of a list, encoded"),
    "list-half-encoded": ("card_number[%5D", "an element of a list, half encoded"),
    "index": ("card_number[0]", "an element at an index"),
    "member": ("card_number[value]", "a member"),
    "member-deep": ("card_number[a][b]", "a member of a member"),
    "member-then-text": ("card_number[a]b", "PHP drops what follows a member"),
    "member-open": ("card_number[a", "a member that is not closed"),
    "member-of-list": ("card_number[][value]", "a member of an element"),
    "member-dot": ("card_number.value", "a member, where dots separate"),
    "null-behind": ("card_number%00", "a null byte ends the name for PHP"),
    "null-then-text": ("card_number%00x", "a null byte ends the name for PHP"),
    "space-before": ("+card_number", "PHP drops spaces before a name"),
    "spaces-before": ("%20%20card_number", "PHP drops spaces before a name"),
    "spaces-before-dot": ("++card.number", "PHP drops spaces before a name and writes _ for ."),
    "space-behind": ("card_number+", "a space behind the name"),
    "tab-before": ("%09card_number", "a tab before the name"),
    "line-before": ("%0Acard_number", "a line end before the name"),
    "line-raw-before": ("\r\ncard_number", "a line end before the name, not encoded"),
    "line-behind": ("card_number%0A", "a line end behind the name"),
    "vertical-tab-before": ("%0Bcard_number", "a vertical tab before the name"),
    "no-break-space-before": ("%C2%A0card_number", "a no-break space before the name"),
    "letter-encoded": ("card_%6eumber", "an encoded letter"),
    "all-encoded": ("".join(f"%{ord(letter):02X}" for letter in "card_number"), "every letter encoded"),
    "underscore-encoded": ("card%5Fnumber", "an encoded underscore"),
    "lower-hex": ("card%5fnumber", "an encoded underscore in lower case"),
    "encoded-twice": ("card%255Fnumber", "encoded twice"),
    "unicode-escape": ("card%u005Fnumber", "the escapes of JavaScript's escape()"),
    "overlong": ("card%C1%9Fnumber", "an overlong underscore"),
    "broken-escape-behind": ("card_number%", "a broken escape behind the name"),
    "broken-escape-before": ("%card_number", "%ca is an escape"),
    "broken-escape-hex": ("card_number%zz", "an escape that is none"),
    "broken-escape-inside": ("card%_number", "an escape that is none"),
    "byte-order-mark": ("%EF%BB%BFcard_number", "an encoded byte order mark"),
    "byte-order-mark-raw": ("\ufeffcard_number", "a byte order mark"),
    "question-mark": ("?card_number", "a question mark, as before a query"),
    "hash": ("%23card_number", "a hash"),
    "upper-case": ("CARD_NUMBER", "another case"),
    "title-case": ("Card_Number", "another case"),
    "full-width": ("card%EF%BC%BFnumber", "a full-width underscore"),
    "entity": ("card%26%2395;number", "an entity of HTML"),
    "amp": ("amp;card_number", "& written as an entity"),
    "hyphen": ("card-number", "a hyphen for the underscore"),
    "camel": ("cardNumber", "camel case"),
    "prototype": ("__proto__[card_number]", "a member of the prototype"),
    "constructor": ("constructor[prototype][card_number]", "a member of the prototype"),
    "prototype-brackets": ("[__proto__][card_number]", "a member of the prototype"),
    "empty-then-member": ("[][card_number]", "a member of a list without a name"),
    "quoted": ("%22card_number%22", "in quotation marks"),
}
# Names that every reader reads plainly, or that are lists which any reader may expect.
PLAIN_NAMES = {"plain", "letter-encoded", "all-encoded", "underscore-encoded", "lower-hex"}


def urlencoded() -> None:
    topic = "urlencoded"
    for name, (text, about) in NAMES.items():
        accepted = name in PLAIN_NAMES
        add(topic, name, about, f"{text}={SECRET}", FORM, accepted=accepted)
        add(topic, f"{name}-second", f"{about}; behind another field", f"a=1&{text}={SECRET}&b=2", FORM, target=FORM_ONLY, accepted=accepted)
    for name, body, about in [
        ("twice", f"card_number=x&card_number={SECRET}", "the field twice"),
        ("twice-first", f"card_number={SECRET}&card_number=x", "the field twice"),
        ("thrice-mixed", f"card_number=x&card_number[]={SECRET}", "a scalar and a list of the same name"),
        ("semicolon", f"a=1;card_number={SECRET}", "a semicolon cuts fields for some"),
        ("semicolon-alone", f";card_number={SECRET}", "a semicolon cuts fields for some"),
        ("semicolon-encoded", f"a=1%3Bcard_number={SECRET}", "an encoded semicolon"),
        ("semicolon-dot", f"a=1;card.number={SECRET}", "a semicolon, and a name that PHP rewrites"),
        ("semicolon-brackets", f"a=1;[card_number]={SECRET}", "a semicolon, and a name in brackets"),
        ("ampersands", f"&&card_number={SECRET}&&", "empty fields"),
        ("comma", f"a=1,card_number={SECRET}", "a comma"),
        ("line-end", f"a=1\r\ncard_number={SECRET}", "a field per line, as in text/plain"),
        ("line-end-behind", f"card_number={SECRET}\r\n", "a line end behind the body"),
        ("null-before", f"\0card_number={SECRET}", "a null byte before the name"),
        ("equals-before", f"=card_number={SECRET}", "an empty name"),
        ("equals-twice", f"card_number=={SECRET}", "two equals signs"),
        ("equals-encoded", f"card_number%3D{SECRET}", "an encoded equals sign"),
        ("space-before-equals", f"card_number +={SECRET}", "white space behind the name"),
        ("charset-field", f"_charset_=utf-16&card_number={SECRET}", "a charset in a field"),
        ("latin-1", f"card_number={SECRET}&a=%E9", "bytes that are not UTF-8"),
        ("utf8-check", f"utf8=%E2%9C%93&card_number={SECRET}", "the check mark of Rails"),
        ("method", f"_method=PUT&card_number={SECRET}", "the method in a field"),
        ("many", "a=1&" * 50 + f"card.number={SECRET}", "behind many fields"),
        ("value-member", f"card[number]={SECRET}&card_number=x", "a member of another field"),
    ]:
        add(topic, name, about, body, FORM)
        add(topic, f"{name}-at-form", about, body, FORM, target=FORM_ONLY)
    for name, kind, about in [
        ("upper", "Application/X-WWW-Form-URLEncoded", "the type in another case"),
        ("parameter", f"{FORM}; a=b", "a parameter"),
        ("charset", f"{FORM}; charset=utf-8", "the charset"),
        ("charset-quoted", f'{FORM}; charset="UTF-8"', "the charset in quotation marks"),
        ("charset-latin", f"{FORM}; charset=iso-8859-1", "another charset"),
        ("charset-ascii", f"{FORM};charset=us-ascii", "another charset"),
        ("charset-utf-7", f"{FORM}; charset=utf-7", "another charset"),
        ("charset-twice", f"{FORM}; charset=utf-8; charset=utf-16", "two charsets"),
        ("semicolon", f"{FORM};", "a semicolon behind the type"),
        ("space-inside", f"{FORM} ; a", "white space before the semicolon"),
        ("comma", f"{FORM}, text/plain", "two types"),
        ("comma-before", f"text/plain, {FORM}", "two types"),
        ("comma-json", f"{JSON}, {FORM}", "two types that rules read"),
        ("behind-text", f"text/plain; {FORM}", "the type as a parameter"),
        ("longer", f"{FORM}x", "a type that begins like a form's"),
        ("short", "application/x-url-encoded", "an older name of the type"),
        ("text", "text/plain", "a text"),
        ("html", "text/html", "a page"),
        ("octets", "application/octet-stream", "bytes"),
        ("empty", "", "an empty type"),
        ("any", "*/*", "a pattern"),
        ("none", None, "no type: Rack and others assume a form"),
        ("slash", "application", "no subtype"),
        ("tab", f"\t{FORM}\t", "white space around the type"),
        ("json", JSON, "a form under the type of JSON"),
        ("json-suffix", "application/x-www-form-urlencoded+json", "a suffix of JSON"),
        ("multipart", MULTIPART, "a form under the type of another"),
        ("multipart-none", "multipart/form-data", "a form under the type of another, without a boundary"),
        ("xml", "application/xml", "XML"),
    ]:
        accepted = name in ("upper", "charset", "charset-quoted", "semicolon")
        for route, ending in ((ALL, ""), (FORM_ONLY, "-at-form")):
            add("types", f"{name}{ending}", about, f"card_number={SECRET}", kind, target=route, accepted=accepted)
    add("types", "twice", "the field twice, with different types", f"card_number={SECRET}", "text/plain", ("Content-Type", FORM))
    add("types", "twice-reversed", "the field twice, with different types", f"card_number={SECRET}", FORM, ("Content-Type", "text/plain"))
    add("types", "underscore", "the field with an underscore", f"card_number={SECRET}", "text/plain", ("Content_Type", FORM))
    add("types", "underscore-alone", "the field with an underscore alone", f"card_number={SECRET}", None, ("Content_Type", FORM))
    for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
        add("types", f"method-{method}", "another method", f"card_number={SECRET}", FORM, method=method)
    for charset in ("utf-16", "utf-16le", "utf-16be", "utf-32", "cp037", "cp500"):
        name = charset.replace("cp037", "ibm037").replace("cp500", "ibm500")
        encoded = f"card_number={SECRET}".encode(charset)
        fields = "".join(f"%{octet:02X}" for octet in "card_number".encode(charset))
        value = "".join(f"%{octet:02X}" for octet in SECRET.encode(charset))
        for route, ending in ((ALL, ""), (FORM_ONLY, "-at-form")):
            add("types", f"{name}-raw{ending}", "the body in another charset", encoded, f"{FORM}; charset={name}", target=route)
            add("types", f"{name}-escapes{ending}", "escapes of another charset", f"{fields}={value}", f"{FORM}; charset={name}", target=route)
        add("types", f"{name}-undeclared", "the body in another charset that nothing names", encoded, FORM)


def part(disposition: str | None, value: str = SECRET, *lines: str) -> str:
    head = [*([f"Content-Disposition: {disposition}"] if disposition is not None else []), *lines]
    return "--B\r\n" + "".join(f"{line}\r\n" for line in head) + f"\r\n{value}\r\n"


OTHER = 'form-data; name="a"'
END = "--B--\r\n"


def multipart() -> None:
    topic = "multipart"
    for name, (text, about) in NAMES.items():
        if "%" in text or "+" in text or "\r" in text:
            continue
        add(topic, name, about, part(f'form-data; name="{text}"') + END, MULTIPART, accepted=name in PLAIN_NAMES)
    both = [
        ("dot", 'name="card.number"'), ("space", 'name="card number"'), ("apostrophes", "name='card_number'"),
        ("apostrophes-dot", "name='card.number'"), ("bare", "name=card_number"), ("bare-dot", "name=card.number"),
        ("bare-space", "name=card number"), ("bare-brackets", "name=[card_number]"), ("bare-list", "name=card_number[]"),
    ]
    for name, parameter in both:
        for route, ending in ((ALL, ""), (FORM_ONLY, "-at-form")):
            add(topic, f"as-{name}{ending}", "a name, quoted or not", part(f"form-data; {parameter}") + END, MULTIPART, target=route)
            add(topic, f"as-{name}-file{ending}", "the name of a file", part(f'form-data; {parameter}; filename="f"') + END, MULTIPART, target=route)
    for name, disposition, about in [
        ("encoded", 'form-data; name="card%5Fnumber"', "an escape in a name"),
        ("encoded-dot", 'form-data; name="card%2Enumber"', "an escape in a name"),
        ("upper", 'form-data; NAME="card_number"', "the parameter in upper case"),
        ("disposition-upper", 'Form-Data; name="card_number"', "the disposition in another case"),
        ("blank-behind-equals", 'form-data; name= "card_number"', "white space behind the equals sign"),
        ("blank-before-equals", 'form-data; name ="card_number"', "white space before the equals sign"),
        ("blanks", 'form-data; name = "card_number"', "white space around the equals sign"),
        ("no-blank", 'form-data;name="card_number"', "no white space"),
        ("tab", 'form-data;\tname="card_number"', "a tab"),
        ("semicolons", 'form-data;; name="card_number"', "an empty parameter"),
        ("no-semicolon", 'form-data name="card_number"', "no semicolon"),
        ("comma", 'form-data, name="card_number"', "a comma"),
        ("attachment", 'attachment; name="card_number"', "another disposition"),
        ("inline", 'inline; name="card_number"', "another disposition"),
        ("file", 'file; name="card_number"', "another disposition"),
        ("only-name", 'name="card_number"', "no disposition"),
        ("semicolon-first", '; name="card_number"', "no disposition"),
        ("twice", 'form-data; name="a"; name="card_number"', "two names"),
        ("twice-reversed", 'form-data; name="card_number"; name="a"', "two names"),
        ("twice-case", 'form-data; name="a"; Name="card_number"', "two names in different case"),
        ("star", "form-data; name*=utf-8''card_number", "RFC 5987"),
        ("star-both", "form-data; name=\"a\"; name*=utf-8''card_number", "RFC 5987 and a plain name"),
        ("star-first", "form-data; name*=utf-8''card_number; name=\"a\"", "RFC 5987 and a plain name"),
        ("star-encoded", "form-data; name=\"a\"; name*=utf-8''card%5Fnumber", "RFC 5987, encoded"),
        ("continued", 'form-data; name*0="card_"; name*1="number"', "RFC 2231"),
        ("continued-both", 'form-data; name="a"; name*0="card_"; name*1="number"', "RFC 2231 and a plain name"),
        ("continued-encoded", "form-data; name*0*=utf-8''card%5F; name*1=number", "RFC 2231, encoded"),
        ("word", 'form-data; name="=?utf-8?Q?card=5Fnumber?="', "an encoded word"),
        ("word-base64", 'form-data; name="=?utf-8?B?Y2FyZF9udW1iZXI=?="', "an encoded word"),
        ("backslash", 'form-data; name="card\\_number"', "a backslash"),
        ("backslash-quote", 'form-data; name="a\\"; name="card_number"', "an escaped quotation mark"),
        ("backslash-both", 'form-data; name="a\\"; name=card_number; x="', "an escaped quotation mark"),
        ("quote-open", 'form-data; name="card_number', "quotation marks that nothing closes"),
        ("quote-behind", 'form-data; name=card_number"', "quotation marks that nothing opens"),
        ("text-behind", 'form-data; name="card_number"x', "text behind the quotation marks"),
        ("quote-inside", 'form-data; name=card"_"number', "quotation marks inside"),
        ("quotes-twice", 'form-data; name=""card_number""', "quotation marks twice"),
        ("apostrophe-in-quotes", "form-data; name=\"'card_number'\"", "apostrophes in quotation marks"),
        ("quotes-in-apostrophes", "form-data; name='\"card_number\"'", "quotation marks in apostrophes"),
        ("apostrophe-open", "form-data; name='card_number", "an apostrophe that nothing closes"),
        ("apostrophe-hides", "form-data; name='a; name=card_number'", "a name in apostrophes"),
        ("apostrophe-semicolon", "form-data; x='; name=card_number; y='; name=\"a\"", "a name in apostrophes"),
        ("comment", "form-data; name=(x)card_number", "a comment"),
        ("null", 'form-data; name="card_number\0"', "a null byte"),
        ("null-inside", 'form-data; name="card_number\0x"', "a null byte and text"),
        ("blank-before", 'form-data; name=" card_number"', "white space in the name"),
        ("blank-before-dot", 'form-data; name=" card.number"', "white space in the name, and a dot"),
        ("blank-behind", 'form-data; name="card_number "', "white space in the name"),
        ("file-before", 'form-data; filename="f"; name="card_number"', "the file name first"),
        ("file-holds-name", 'form-data; filename="name=card_number"; name="a"', "a name in a file name"),
        ("file-holds-quote", 'form-data; name="a"; filename="\\"; name=card_number; x="', "a name in a file name"),
        ("file-empty", 'form-data; name="card_number"; filename=""', "an empty file name"),
        ("file-bare", "form-data; name=card_number; filename=f", "a bare file name"),
        ("file-star", "form-data; name=\"card_number\"; filename*=utf-8''f", "a file name by RFC 5987"),
        ("file-alone", 'form-data; filename="card_number"', "Rack takes a file name for the name"),
        ("file-apostrophes", "form-data; name='card_number'; filename='f'", "apostrophes around both"),
        ("path", 'form-data; name="a/card_number"', "a path"),
        ("path-windows", 'form-data; name="C:\\card_number"', "a path of Windows"),
        ("prefix", 'form-data; xname="card_number"; name="a"', "a parameter that ends in name"),
        ("prefix-alone", 'form-data; xname="card_number"', "a parameter that ends in name"),
        ("latin-1", 'form-data; name="card_number"; filename="\u00e9"', "text that is not ASCII"),
        ("entity", 'form-data; name="card&#95;number"', "an entity of HTML"),
        ("overlong", 'form-data; name="card\udcc1\udc9fnumber"', "an overlong underscore"),
    ]:
        body = (part(disposition) + END).encode("utf-8", "surrogateescape")
        add(topic, name, about, body, MULTIPART)
        add(topic, f"{name}-at-form", about, body, MULTIPART, target=FORM_ONLY)
    headed = 'form-data; name="card_number"'
    add(topic, "upload", "a file", part(f'{headed}; filename="f"', SECRET, "Content-Type: text/plain") + END, MULTIPART, accepted=True)
    for name, body, about in [
        ("no-disposition", part(None, SECRET, "Content-ID: card_number"), "Rack takes Content-ID for the name"),
        ("content-id", part("form-data", SECRET, "Content-ID: card_number"), "Rack takes Content-ID for the name"),
        ("content-id-angle", part("form-data", SECRET, "Content-ID: <card_number>"), "Rack takes Content-ID for the name"),
        ("type-name", part(None, SECRET, 'Content-Type: text/plain; name="card_number"'), "a name in the part's type"),
        ("type-as-name", part(None, SECRET, "Content-Type: card_number"), "Rack takes the type for the name of a list"),
        ("type-as-list", part("form-data", SECRET, "Content-Type: card_number"), "Rack takes the type for the name of a list"),
        ("lower", f"--B\r\ncontent-disposition: {headed}\r\n\r\n{SECRET}\r\n", "the header in lower case"),
        ("space-colon", f"--B\r\nContent-Disposition : {headed}\r\n\r\n{SECRET}\r\n", "white space before the colon"),
        ("space-first", f"--B\r\n Content-Disposition: {headed}\r\n\r\n{SECRET}\r\n", "white space before the header"),
        ("no-space", f"--B\r\nContent-Disposition:{headed}\r\n\r\n{SECRET}\r\n", "no white space"),
        ("folded", f'--B\r\nContent-Disposition: form-data;\r\n name="card_number"\r\n\r\n{SECRET}\r\n', "a folded line"),
        ("folded-tab", f'--B\r\nContent-Disposition: form-data; name="a";\r\n\tname="card_number"\r\n\r\n{SECRET}\r\n', "a folded line"),
        ("two-headers", f"--B\r\nContent-Disposition: {OTHER}\r\nContent-Disposition: {headed}\r\n\r\n{SECRET}\r\n", "the header twice"),
        ("two-headers-reversed", f"--B\r\nContent-Disposition: {headed}\r\nContent-Disposition: {OTHER}\r\n\r\n{SECRET}\r\n", "the header twice"),
        ("underscore", f"--B\r\nContent_Disposition: {headed}\r\n\r\n{SECRET}\r\n", "an underscore in the header's name"),
        ("lf", f"--B\nContent-Disposition: {headed}\n\n{SECRET}\n--B--\n", "bare line ends"),
        ("lf-headers", f"--B\r\nContent-Disposition: {headed}\n\n{SECRET}\r\n", "bare line ends between headers"),
        ("lf-inside", f"--B\r\nA: b\nContent-Disposition: {headed}\r\n\r\n{SECRET}\r\n", "a bare line end"),
        ("cr-inside", f"--B\r\nA: b\rContent-Disposition: {headed}\r\n\r\n{SECRET}\r\n", "a carriage return"),
        ("null-header", f"--B\r\nA: \0\r\nContent-Disposition: {headed}\r\n\r\n{SECRET}\r\n", "a null byte in a header"),
        ("no-blank-line", f"--B\r\nContent-Disposition: {headed}\r\n{SECRET}\r\n", "no empty line"),
        ("blank-line-first", f"--B\r\n\r\nContent-Disposition: {headed}\r\n\r\n{SECRET}\r\n", "an empty line first"),
        ("base64", part(headed, "NDExMTExMTExMTExMTExMQ==", "Content-Transfer-Encoding: base64"), "Django decodes base64"),
        ("base64-upper", part(headed, "NDExMTExMTExMTExMTExMQ==", "content-transfer-encoding: BASE64"), "Django decodes base64"),
        ("quoted-printable", part(headed, "=3411111111111111", "Content-Transfer-Encoding: quoted-printable"), "an encoding of mail"),
        ("binary", part(headed, SECRET, "Content-Transfer-Encoding: binary"), "an encoding of mail"),
        ("length", part(headed, SECRET, "Content-Length: 16"), "the length of the part"),
        ("length-short", part(headed, SECRET, "Content-Length: 2"), "a wrong length of the part"),
        ("charset", part(headed, SECRET, "Content-Type: text/plain; charset=utf-16"), "another charset"),
        ("charset-utf-8", part(headed, SECRET, "Content-Type: text/plain; charset=utf-8"), "the charset"),
        ("charset-field", part('form-data; name="_charset_"', "utf-16") + part(headed), "a charset in a field"),
        ("json-part", part(headed, f'"{SECRET}"', "Content-Type: application/json"), "a part of JSON"),
        ("form-part", part('form-data; name="a"', f"card_number={SECRET}", f"Content-Type: {FORM}"), "a part that is a form"),
        ("mixed", part('form-data; name="a"', "--C\r\nContent-Disposition: form-data; name=\"card_number\"\r\n\r\n" + SECRET + "\r\n--C--",
                       "Content-Type: multipart/mixed; boundary=C"), "parts in a part"),
        ("other-first", part(OTHER, "x") + part(headed), "behind another part"),
        ("twice-parts", part(headed, "x") + part(headed), "two parts of one name"),
        ("delimiter-blank", part(OTHER, "x") + part(headed).replace("--B\r\n", "--B \t\r\n"), "white space behind the delimiter"),
        ("delimiter-longer", part(OTHER, "x\r\n--Bx\r\nContent-Disposition: " + headed + "\r\n\r\n" + SECRET), "a line that begins like a delimiter"),
        ("delimiter-bare", part(OTHER, "x\n--B\nContent-Disposition: " + headed + "\n\n" + SECRET), "a delimiter between bare line ends"),
        ("delimiter-inside", part(OTHER, "x--B\r\nContent-Disposition: " + headed + "\r\n\r\n" + SECRET), "a delimiter behind text"),
        ("delimiter-cr", part(OTHER, "x\r--B\r\nContent-Disposition: " + headed + "\r\n\r\n" + SECRET), "a delimiter behind a carriage return"),
        ("delimiter-dash", part(OTHER, "x\r\n--B-\r\nContent-Disposition: " + headed + "\r\n\r\n" + SECRET), "half an end"),
        ("preamble", "text\r\n" + part(headed), "text before the first delimiter"),
        ("preamble-form", f"card_number={SECRET}&x=\r\n" + part(OTHER, "x"), "a form before the first delimiter"),
        ("preamble-json", f'{{"card_number":"{SECRET}"}}\r\n' + part(OTHER, "x"), "JSON before the first delimiter, for readers that ignore the rest"),
        ("value-form", part(OTHER, f"&card_number={SECRET}&"), "a form in a value, for readers that ignore the type"),
        ("blank-lines-first", "\r\n\r\n" + part(headed), "empty lines before the first delimiter"),
        ("crlf-first", "\r\n" + part(headed), "an empty line before the first delimiter"),
    ]:
        text = body if body.endswith("--B--\n") else body + END
        add(topic, f"layout-{name}", about, text, MULTIPART)
        add(topic, f"layout-{name}-at-form", about, text, MULTIPART, target=FORM_ONLY)
    for name, body, about in [
        ("epilogue", part(OTHER, "x") + END + part(headed) + END, "parts behind the end"),
        ("epilogue-alone", END + part(headed) + END, "an end, then a part"),
        ("epilogue-json", part(OTHER, "x") + END + f'{{"card_number":"{SECRET}"}}', "JSON behind the end"),
        ("epilogue-form", part(OTHER, "x") + END + f"&card_number={SECRET}", "a form behind the end"),
        ("no-end", part(headed), "no end"),
        ("no-end-line", part(headed).removesuffix("\r\n"), "no end and no line end"),
        ("half-end", part(headed) + "--B-", "half an end"),
        ("empty", END, "no part"),
    ]:
        add(topic, f"layout-{name}", about, body, MULTIPART)
        add(topic, f"layout-{name}-at-form", about, body, MULTIPART, target=FORM_ONLY)
    body = part(headed) + END
    for name, kind, about in [
        ("quoted", 'multipart/form-data; boundary="B"', "the boundary in quotation marks"),
        ("apostrophes", "multipart/form-data; boundary='B'", "the boundary in apostrophes"),
        ("upper", "Multipart/Form-Data; BOUNDARY=B", "another case"),
        ("blank", "multipart/form-data; boundary= B", "white space before the boundary"),
        ("blank-before", "multipart/form-data; boundary =B", "white space before the equals sign"),
        ("comma", "multipart/form-data, boundary=B", "a comma"),
        ("no-semicolon", "multipart/form-data boundary=B", "no semicolon"),
        ("comma-behind", "multipart/form-data; boundary=B, x", "a comma behind the boundary"),
        ("semicolon-behind", "multipart/form-data; boundary=B;", "a semicolon behind the boundary"),
        ("parameter-behind", "multipart/form-data; boundary=B; charset=utf-8", "a charset"),
        ("charset-utf-16", "multipart/form-data; charset=utf-16; boundary=B", "another charset"),
        ("charset-utf-7", "multipart/form-data; boundary=B; charset=utf-7", "another charset"),
        ("twice", "multipart/form-data; boundary=A; boundary=B", "two boundaries"),
        ("twice-reversed", "multipart/form-data; boundary=B; boundary=A", "two boundaries"),
        ("twice-case", "multipart/form-data; boundary=A; BOUNDARY=B", "two boundaries"),
        ("star", "multipart/form-data; boundary=A; boundary*=us-ascii''B", "RFC 2231"),
        ("prefix", "multipart/form-data; xboundary=B; boundary=A", "a parameter that ends in boundary"),
        ("in-quotes", 'multipart/form-data; x="; boundary=B"; boundary=A', "a boundary in a quoted value"),
        ("escape", 'multipart/form-data; boundary="\\B"', "an escape"),
        ("mixed", "multipart/mixed; boundary=B", "another subtype: Rack reads it"),
        ("related", "multipart/related; boundary=B", "another subtype: Rack reads it"),
        ("alternative", "multipart/alternative; boundary=B", "another subtype"),
        ("subtype-none", "multipart/; boundary=B", "no subtype"),
        ("longer", "multipart/form-dataX; boundary=B", "a type that begins like a form's"),
        ("none", "multipart/form-data", "no boundary"),
        ("empty", "multipart/form-data; boundary=", "an empty boundary"),
        ("text", "text/plain; boundary=B", "another type"),
        ("form", f"{FORM}; boundary=B", "the type of the other form"),
    ]:
        accepted = name in ("quoted", "upper")
        for route, ending in ((ALL, ""), (FORM_ONLY, "-at-form")):
            add(topic, f"type-{name}{ending}", about, body, kind, target=route, accepted=accepted)
    utf_16 = part(headed, SECRET).split("\r\n\r\n")[0].encode() + b"\r\nContent-Type: text/plain; charset=utf-16le\r\n\r\n"
    add(topic, "value-utf-16", "a value in another charset", utf_16 + SECRET.encode("utf-16le") + b"\r\n" + END.encode(), MULTIPART)


CARD = f'{{"card":{{"number":"{SECRET}"}}}}'
FLAT = f'{{"card_number":"{SECRET}"}}'


def documents() -> None:
    topic = "json"
    for name, text, about, accepted in [
        ("nested", CARD, "the name itself", True),
        ("flat", FLAT, "the name itself", True),
        ("key", f'{{"secret_key":"{SECRET}"}}', "the name itself", True),
        ("number", f'{{"card_number":{SECRET}}}', "a number", True),
        ("escaped-name", f'{{"card\\u005fnumber":"{SECRET}"}}', "an escape in the name", True),
        ("escaped-all", '{"' + "".join(f"\\u{ord(letter):04X}" for letter in "card_number") + f'":"{SECRET}"}}', "escapes in the name", True),
        ("white-space", f' \r\n\t{{ "card_number" \n:\t"{SECRET}" }} \n', "white space", True),
        ("twice", f'{{"card_number":"x","card_number":"{SECRET}"}}', "the name twice", True),
        ("twice-first", f'{{"card_number":"{SECRET}","card_number":"x"}}', "the name twice", False),
        ("twice-nested", f'{{"card":{{"number":"x"}},"card":{{"number":"{SECRET}"}}}}', "the object twice", True),
        ("twice-escaped", f'{{"card_number":"x","card\\u005fnumber":"{SECRET}"}}', "the name twice, once with an escape", True),
        ("list", f'{{"card_number":["{SECRET}"]}}', "a list", False),
        ("object", f'{{"card_number":{{"value":"{SECRET}"}}}}', "an object", False),
        ("object-operator", f'{{"card":{{"number":{{"$ne":"{SECRET}"}}}}}}', "an operator of MongoDB", False),
        ("exponent", '{"card_number":4111111111111111e0}', "an exponent", False),
        ("string-object", f'{{"card":"{{\\"number\\":\\"{SECRET}\\"}}"}}', "JSON in a string", False),
        ("title", f'{{"card":{{"number":"x","Number":"{SECRET}"}}}}', "Go and .NET ignore case; the last one wins", False),
        ("title-alone", f'{{"card":{{"Number":"{SECRET}"}}}}', "Go and .NET ignore case", False),
        ("title-first", f'{{"card":{{"Number":"{SECRET}","number":"x"}}}}', "Go and .NET ignore case", False),
        ("upper", f'{{"CARD":{{"NUMBER":"{SECRET}"}}}}', "Go and .NET ignore case", False),
        ("upper-parent", f'{{"card":{{"number":"x"}},"CARD":{{"number":"{SECRET}"}}}}', "the object in another case", False),
        ("upper-flat", f'{{"CARD_NUMBER":"{SECRET}"}}', "Go and .NET ignore case", False),
        ("upper-flat-both", f'{{"card_number":"x","Card_Number":"{SECRET}"}}', "Go and .NET ignore case", False),
        ("upper-escaped", f'{{"\\u0043ard_number":"{SECRET}"}}', "another case by an escape", False),
        ("long-s", f'{{"\u017fecret_key":"{SECRET}"}}', "Go folds the long s to s", False),
        ("long-s-escaped", f'{{"\\u017fecret_key":"{SECRET}"}}', "the long s by an escape", False),
        ("kelvin", f'{{"secret_\u212aey":"{SECRET}"}}', "Go folds the Kelvin sign to k", False),
        ("kelvin-both", f'{{"secret_key":"x","secret_\u212aey":"{SECRET}"}}', "Go folds the Kelvin sign to k", False),
        ("kelvin-upper", f'{{"\u017fECRET_\\u212aEY":"{SECRET}"}}', "both folds and another case", False),
        ("full-width", f'{{"\uff43ard_number":"{SECRET}"}}', "a full-width letter", False),
        ("null-in-name", f'{{"card_number\\u0000":"{SECRET}"}}', "a null byte in the name", False),
        ("null-in-name-both", f'{{"card_number":"x","card_number\\u0000":"{SECRET}"}}', "a null byte in the name", False),
        ("surrogate", f'{{"card_number":"{SECRET}","a":"\\ud800"}}', "half a surrogate pair", False),
        ("surrogate-in-name", f'{{"card_number\\ud800":"{SECRET}"}}', "half a surrogate pair in the name", False),
        ("prototype", f'{{"__proto__":{{"card_number":"{SECRET}"}}}}', "the prototype of JavaScript", False),
        ("member-dot", f'{{"card.number":"{SECRET}"}}', "a path as a name", False),
        ("member-brackets", f'{{"card[number]":"{SECRET}"}}', "a path as a name", False),
        ("camel", f'{{"cardNumber":"{SECRET}"}}', "camel case", False),
        ("in-list", f'[{{"card_number":"{SECRET}"}}]', "in a list", False),
        ("apostrophes", f"{{'card_number':'{SECRET}'}}", "apostrophes", False),
        ("bare-name", f'{{card_number:"{SECRET}"}}', "a bare name", False),
        ("comma-behind", f'{{"card_number":"{SECRET}",}}', "a comma behind the last member", False),
        ("comment", f'/**/{{"card_number":"{SECRET}"}}', "Ruby accepts comments", False),
        ("comment-inside", f'{{"a":1,/*"*/"card_number":"{SECRET}"/*"*/}}', "Ruby accepts comments", False),
        ("comment-line", f'//x\n{{"card_number":"{SECRET}"}}', "Ruby accepts comments", False),
        ("nan", f'{{"a":NaN,"card_number":"{SECRET}"}}', "Python accepts NaN", False),
        ("infinity", f'{{"a":-Infinity,"card_number":"{SECRET}"}}', "Python accepts Infinity", False),
        ("control", f'{{"a":"\x01","card_number":"{SECRET}"}}', "a control character", False),
        ("byte-order-mark", f"\ufeff{FLAT}", "a byte order mark", False),
        ("garbage-behind", f"{FLAT}x", "Go and Jackson ignore what follows", False),
        ("document-behind", f'{{"a":1}}{FLAT}', "two documents", False),
        ("document-before", f'{FLAT}{{"a":1}}', "two documents", False),
        ("lines", f'{{"a":1}}\n{FLAT}\n', "a document per line", False),
        ("prefix", f")]}}',\n{FLAT}", "the prefix against inclusion", False),
        ("separator", f"\x1e{FLAT}\n", "a record separator", False),
        ("unfinished", FLAT[:-1], "an object that is not closed", False),
        ("null-behind", f"{FLAT}\0", "a null byte behind the document", False),
        ("form-feed", f"\f{FLAT}", "a form feed", False),
        ("form-in-string", f'{{"a":"&card_number={SECRET}&"}}', "a form in a string, for readers that ignore the type", False),
        ("form-string", f'"&card_number={SECRET}&"', "a form as a string, for readers that ignore the type", False),
        ("form-bracket-in-string", f'{{"a":"&[card_number]={SECRET}&"}}', "a form in a string, for readers that ignore the type", False),
    ]:
        body = text.encode("utf-8", "surrogatepass")
        add(topic, name, about, body, JSON, accepted=accepted)
        if not name.startswith("form-"):
            add(topic, f"{name}-at-json", about, body, JSON, target=JSON_ONLY, accepted=accepted)
    add(topic, "not-utf-8", "a byte that is not UTF-8 in a name", b'{"card_number\xff":"' + SECRET.encode() + b'"}', JSON)
    add(topic, "not-utf-8-value", "a byte that is not UTF-8 beside", b'{"a":"\xff","card_number":"' + SECRET.encode() + b'"}', JSON)
    add(topic, "overlong", "an overlong underscore", b'{"card\xc1\x9fnumber":"' + SECRET.encode() + b'"}', JSON)
    for charset in ("utf-16", "utf-16le", "utf-16be", "utf-32", "utf-32le", "utf-32be", "cp037", "utf-7", "utf-8-sig"):
        for document, which in ((CARD, "nested"), (FLAT, "flat")):
            encoded = document.encode(charset)
            for route, ending in ((ALL, ""), (JSON_ONLY, "-at-json")):
                add("charset", f"{charset}-{which}{ending}", "another charset, named", encoded, f"{JSON}; charset={charset}", target=route)
                add("charset", f"{charset}-{which}-unnamed{ending}", "another charset, not named", encoded, JSON, target=route)
            for kind, type_name in ((FORM, "form"), (MULTIPART, "multipart"), ("text/plain", "text")):
                add("charset", f"{charset}-{which}-{type_name}", "another charset under another type", encoded, kind)
    for name, kind, about in [
        ("upper", "Application/JSON", "another case"),
        ("charset", f"{JSON}; charset=utf-8", "the charset"),
        ("text", "text/json", "an older name"),
        ("suffix", "application/vnd.api+json", "a suffix"),
        ("problem", "application/problem+json; a=b", "a suffix and a parameter"),
    ]:
        add("json-types", name, about, CARD, kind, accepted=True)
        add("json-types", f"{name}-at-json", about, CARD, kind, target=JSON_ONLY, accepted=True)
    bodies = {
        "nested": CARD,
        "flat": FLAT,
        "blanks": f" \r\n\t {CARD}",
        "behind": f"{FLAT}&a=1",
        "behind-line": f"{FLAT}\r\nx",
        "byte-order-mark": f"\ufeff{FLAT}",
        "comment": f"/*&*/{FLAT}",
        "comment-line": f"//a=1\n{FLAT}",
        "equals": f'{{"a=":"b&c=d","card_number":"{SECRET}"}}',
        "ampersand": f'{{"a":"&","card_number":"{SECRET}","b":"="}}',
        "percent": f'{{"a":"%7B","card_number":"{SECRET}"}}',
        "title": f'{{"card":{{"number":"x","Number":"{SECRET}"}}}}',
        "escaped-name": f'{{"card\\u005fnumber":"{SECRET}"}}',
        "nan": f'{{"a":NaN,"card_number":"{SECRET}"}}',
        "unfinished": FLAT[:-1],
        "second": f'{{"a":1}}{FLAT}',
        "list": f"[{FLAT}]",
        "null-first": f"\0{FLAT}",
        "form-feed": f"\f{FLAT}",
        "no-break-space": f"\u00a0{FLAT}",
    }
    for name, kind, about in [
        ("form", FORM, "the type of a form"),
        ("form-charset", f"{FORM}; charset=utf-8", "the type of a form with a charset"),
        ("form-upper", FORM.upper(), "the type of a form in upper case"),
        ("multipart", MULTIPART, "the type of a multipart form"),
        ("multipart-none", "multipart/form-data", "the type of a multipart form without a boundary"),
        ("plain", "text/plain", "the type of a text"),
        ("none", None, "no type"),
        ("empty", "", "an empty type"),
        ("any", "*/*", "a pattern"),
        ("octets", "application/octet-stream", "the type of bytes"),
        ("javascript", "application/javascript", "the type of a script"),
        ("x-json", "application/x-json", "a type like JSON's"),
        ("json-sequence", "application/json-seq", "a type like JSON's"),
        ("ndjson", "application/x-ndjson", "a type like JSON's"),
        ("json5", "application/json5", "a type like JSON's"),
        ("suffix-middle", "application/x+json+xml", "a suffix in the middle"),
        ("report", "application/csp-report", "the type of a report, which is JSON"),
        ("reports", "application/reports+json-patch", "a type with another suffix"),
        ("two", f"{JSON}, text/plain", "two types"),
        ("two-reversed", f"text/plain, {JSON}", "two types"),
        ("two-form", f"{FORM}, {JSON}", "two types that rules read"),
        ("blank", "application / json", "white space in the type"),
        ("comma", "application/json,", "a comma"),
        ("space", "application/json x", "text behind the type"),
        ("longer", "application/jsonx", "a type that begins like JSON's"),
        ("sms", "image/png", "an image"),
        ("xml", "application/xml", "XML"),
        ("grpc", "application/grpc+json", "a suffix"),
    ]:
        many = name in ("form", "multipart")
        for which, body in bodies.items():
            if many or which in ("nested", "flat"):
                add("json-types", f"{name}-{which}", about, body, kind)
                if name not in ("two-form",):
                    add("json-types", f"{name}-{which}-at-json", about, body, kind, target=JSON_ONLY)
    add("json-types", "twice", "the field twice", CARD, "text/plain", ("Content-Type", JSON))
    add("json-types", "twice-form", "the field twice", CARD, FORM, ("Content-Type", JSON))
    add("json-types", "twice-form-reversed", "the field twice", CARD, JSON, ("Content-Type", FORM))
    for method in ("GET", "PUT", "PATCH", "DELETE", "QUERY"):
        add("json-types", f"method-{method}", "another method", CARD, JSON, method=method)


def paths() -> None:
    for name, target, about in [
        ("plain", "/v1/cards", "the path itself"),
        ("slash-behind", "/v1/cards/", "a slash behind it"),
        ("slashes-behind", "/v1/cards//", "slashes behind it"),
        ("slash-before", "//v1/cards", "an empty segment"),
        ("slashes-before", "///v1/cards", "empty segments"),
        ("slash-inside", "/v1//cards", "an empty segment"),
        ("dot", "/v1/./cards", "a dot segment"),
        ("dot-first", "/./v1/cards", "a dot segment"),
        ("dot-behind", "/v1/cards/.", "a dot segment"),
        ("dots", "/v1/x/../cards", "two dots"),
        ("dots-first", "/../v1/cards", "two dots"),
        ("dots-behind", "/v1/cards/x/..", "two dots"),
        ("dots-empty", "/v1//../cards", "two dots behind an empty segment"),
        ("dot-encoded", "/v1/%2e/cards", "an encoded dot"),
        ("dots-encoded", "/v1/x/%2e%2E/cards", "encoded dots"),
        ("dots-half-encoded", "/v1/x/.%2e/cards", "half encoded dots"),
        ("dots-encoded-twice", "/v1/x/%252e%252e/cards", "dots that are encoded twice"),
        ("dots-matrix", "/v1/x/..;/cards", "dots with a matrix parameter"),
        ("dots-matrix-named", "/v1/x/..;a=b/cards", "dots with a matrix parameter"),
        ("dot-matrix", "/v1/.;/cards", "a dot with a matrix parameter"),
        ("dots-matrix-encoded", "/v1/x/%2e%2e;/cards", "encoded dots with a matrix parameter"),
        ("three-dots", "/v1/.../cards", "three dots"),
        ("encoded-letter", "/v1/%63ards", "an encoded letter"),
        ("encoded-all", "/%76%31/%63%61%72%64%73", "every letter encoded"),
        ("encoded-twice", "/v1/%2563ards", "encoded twice"),
        ("encoded-slash", "/v1%2Fcards", "an encoded slash"),
        ("encoded-slash-lower", "/v1%2fcards", "an encoded slash"),
        ("encoded-slash-behind", "/v1/cards%2F", "an encoded slash behind the path"),
        ("encoded-slash-twice", "/v1%252Fcards", "a slash that is encoded twice"),
        ("backslash", "/v1\\cards", "a backslash"),
        ("backslash-encoded", "/v1%5Ccards", "an encoded backslash"),
        ("backslash-dots", "/v1/x\\..\\cards", "backslashes and dots"),
        ("upper", "/V1/CARDS", "another case"),
        ("title", "/v1/Cards", "another case"),
        ("upper-encoded", "/v1/%43ards", "another case, encoded"),
        ("long-s", "/v1/card%C5%BF", "the long s"),
        ("matrix", "/v1/cards;x", "a matrix parameter"),
        ("matrix-named", "/v1/cards;a=b;c", "matrix parameters"),
        ("matrix-empty", "/v1/cards;", "an empty matrix parameter"),
        ("matrix-inside", "/v1;x/cards", "a matrix parameter of another segment"),
        ("matrix-all", "/v1;a/cards;b", "matrix parameters"),
        ("matrix-slash", "/v1/cards;x/", "a slash behind a matrix parameter"),
        ("matrix-encoded", "/v1/cards%3Bx", "an encoded matrix parameter"),
        ("matrix-dots", "/v1/cards;/../x", "dots behind a matrix parameter"),
        ("matrix-session", "/v1/cards;jsessionid=1", "a session"),
        ("matrix-comma", "/v1/cards,x", "a comma"),
        ("matrix-alone", "/v1/;x/cards", "a segment of a matrix parameter alone"),
        ("matrix-alone-empty", "/v1/;/cards", "a segment of a semicolon alone"),
        ("matrix-alone-first", "/;/v1/cards", "a segment of a semicolon alone"),
        ("matrix-alone-first-named", "/;a=b/v1/cards", "a segment of a matrix parameter alone"),
        ("matrix-alone-many", "/;/;x/v1/;y/;/cards", "segments of matrix parameters alone"),
        ("matrix-alone-behind", "/v1/cards/;", "a segment of a semicolon alone"),
        ("matrix-alone-behind-named", "/v1/cards/;x/", "a segment of a matrix parameter alone"),
        ("matrix-alone-slashes", "/v1//;x//cards", "empty segments around a matrix parameter"),
        ("matrix-upper", "/V1/;x/Cards", "another case and a matrix parameter"),
        ("null", "/v1/cards%00", "a null byte"),
        ("null-text", "/v1/cards%00.html", "a null byte and text"),
        ("space", "/v1/cards%20", "a space"),
        ("tab", "/v1/cards%09", "a tab"),
        ("line", "/v1/cards%0A", "a line end"),
        ("line-crlf", "/v1/cards%0D%0A", "a line end"),
        ("dot-at-end", "/v1/cards.", "a dot at the end"),
        ("question-encoded", "/v1/cards%3F", "an encoded question mark"),
        ("hash-encoded", "/v1/cards%23x", "an encoded hash"),
        ("hash", "/v1/cards#x", "a fragment"),
        ("question", "/v1/cards?", "an empty query"),
        ("question-path", "/v1/cards?/../x", "a path in the query"),
        ("question-before", "/x?/../v1/cards", "the path in the query"),
        ("overlong-slash", "/v1%C0%AFcards", "an overlong slash"),
        ("overlong-dot", "/v1/x/%C0%AE%C0%AE/cards", "overlong dots"),
        ("full-width", "/v1/%EF%BD%83ards", "a full-width letter"),
        ("full-width-slash", "/v1%EF%BC%8Fcards", "a full-width slash"),
        ("broken-escape", "/v1/cards%", "a broken escape"),
        ("broken-escape-text", "/v1/%zzcards", "an escape that is none"),
        ("unicode-escape", "/v1/%u0063ards", "the escapes of JavaScript's escape()"),
        ("plus", "/v1/cards+", "a plus sign"),
        ("absolute", "http://front.test/v1/cards", "the absolute form"),
        ("absolute-upper", "HTTP://front.test/v1/cards", "the absolute form in upper case"),
        ("absolute-matrix", "http://front.test/;/v1/cards", "the absolute form and a matrix parameter"),
        ("absolute-dots", "http://front.test/x/../v1/cards", "the absolute form and dots"),
        ("authority", "//front.test/v1/cards", "a target that looks like a host"),
        ("no-slash", "v1/cards", "no slash"),
        ("soft-hyphen", "/v1/car%C2%ADds", "a soft hyphen"),
        ("combining", "/v1/cards%CC%81", "a combining mark"),
    ]:
        accepted = name in ("plain", "slash-behind", "encoded-letter", "question")
        add("path", name, about, CARD, JSON, target=target, accepted=accepted)
        add("path", f"{name}-as-form", about, f"card_number={SECRET}", FORM, target=target, accepted=accepted)


def query() -> None:
    for name, (text, about) in NAMES.items():
        text = text.replace(" ", "+").replace("\r\n", "%0D%0A").replace("\ufeff", "%EF%BB%BF")
        accepted = name in PLAIN_NAMES
        if "amp;" in text:
            text = f"a=1&{text}"
        add("query", name, about, target=f"{ALL}?{text}={SECRET}", method="GET", accepted=accepted)
        add("query", f"{name}-second", about, target=f"{QUERY_ONLY}?a=1&{text}={SECRET}", method="GET", accepted=accepted)
    for name, text, about in [
        ("twice", f"card_number=x&card_number={SECRET}", "the parameter twice"),
        ("semicolon", f"a=1;card_number={SECRET}", "a semicolon cuts parameters for some"),
        ("semicolon-alone", f";card_number={SECRET}", "a semicolon cuts parameters for some"),
        ("semicolon-dot", f"a=1;card.number={SECRET}", "a semicolon, and a name that PHP rewrites"),
        ("ampersands", f"&&card_number={SECRET}", "empty parameters"),
        ("question", f"?card_number={SECRET}", "two question marks"),
        ("question-inside", f"a=1?card_number={SECRET}", "another question mark"),
        ("fragment", f"card_number={SECRET}#x", "a fragment"),
        ("fragment-before", f"a=1#&card_number={SECRET}", "a parameter in the fragment"),
        ("escape", f"card_number={SECRET}%", "a broken escape in the value"),
        ("equals", f"card_number=={SECRET}", "two equals signs"),
        ("null", f"card_number={SECRET}%00", "a null byte in the value"),
        ("latin-1", f"card_number={SECRET}%E9", "a byte that is not UTF-8"),
        ("charset", f"_charset_=utf-16&card_number={SECRET}", "a charset"),
        ("plus-behind", f"card_number={SECRET}+", "a plus sign"),
        ("ampersand-encoded", f"a=1%26card_number={SECRET}", "an encoded ampersand"),
        ("comma", f"a=1,card_number={SECRET}", "a comma"),
        ("braces", f"{{card_number}}={SECRET}", "braces"),
        ("pipe", f"card_number={SECRET}|x", "a character that must be encoded"),
    ]:
        add("query", name, about, target=f"{ALL}?{text}", method="GET")
        add("query", f"{name}-at-query", about, target=f"{QUERY_ONLY}?{text}", method="GET")
    add("query", "post", "with a body", "a=1", FORM, target=f"{ALL}?card_number={SECRET}", accepted=True)
    add("query", "post-both", "a field and a parameter", "a=x", FORM, target=f"{ALL}?card_number={SECRET}", accepted=True)
    add("query", "post-json", "with JSON", CARD, JSON, target=f"{ALL}?card_number={SECRET}", accepted=True)
    add("query", "absolute", "in the absolute form", target=f"http://front.test{ALL}?card_number={SECRET}", method="GET")
    add("query", "matrix", "behind a matrix parameter", target=f"{ALL};x?card_number={SECRET}", method="GET")
    add("query", "matrix-name", "as a matrix parameter", target=f"{ALL};card_number={SECRET}", method="GET")
    add("query", "question-encoded", "behind an encoded question mark", target=f"{ALL}%3Fcard_number={SECRET}", method="GET")
    add("query", "slash", "behind a slash", target=f"{ALL}/?card_number={SECRET}", method="GET")
    add("query", "upper-path", "the path in another case", target=f"/V1/Cards?card_number={SECRET}", method="GET")


def headers() -> None:
    for name, field, about, accepted in [
        ("plain", "X-Card-Number", "the name itself", True),
        ("lower", "x-card-number", "lower case", True),
        ("upper", "X-CARD-NUMBER", "upper case", True),
        ("underscores", "X_Card_Number", "CGI takes _ for -", False),
        ("underscore", "X-Card_Number", "CGI takes _ for -", False),
        ("underscore-first", "X_Card-Number", "CGI takes _ for -", False),
        ("dots", "X.Card.Number", "PHP writes _ for .", False),
        ("dot", "X-Card.Number", "PHP writes _ for .", False),
        ("http", "HTTP-X-Card-Number", "the prefix of CGI", False),
        ("tilde", "X~Card~Number", "another mark", False),
        ("plus", "X+Card+Number", "another mark", False),
        ("bar", "X|Card|Number", "another mark", False),
        ("bang", "X!Card!Number", "another mark", False),
        ("space-behind", "X-Card-Number ", "white space before the colon", False),
        ("tab-behind", "X-Card-Number\t", "white space before the colon", False),
        ("space-before", " X-Card-Number", "white space before the name", False),
        ("bracket", "X[Card-Number", "a bracket, which PHP writes as _", False),
        ("space-inside", "X-Card Number", "a space inside", False),
        ("null", "X-Card-Number\0", "a null byte", False),
    ]:
        add("header", name, about, "{}", JSON, (field, SECRET), accepted=accepted)
        add("header", f"{name}-both", f"{about}; and the field itself", "{}", JSON, ("X-Card-Number", "x"), (field, SECRET), accepted=accepted)
        add("header", f"{name}-before", f"{about}; before the field itself", None, None, (field, SECRET), ("X-Card-Number", "x"), method="GET", accepted=accepted)
    add("header", "folded", "a folded line", None, None, ("X-Card-Number", f"x\r\n {SECRET}"), method="GET")
    add("header", "list", "several values", None, None, ("X-Card-Number", f"x, {SECRET}"), method="GET", accepted=True)
    add("header", "empty-first", "an empty value first", None, None, ("X-Card-Number", ""), ("X-Card-Number", SECRET), method="GET", accepted=True)
    add("header", "latin-1", "a byte that is not ASCII", None, None, ("X-Card-Number", f"{SECRET}\u00e9"), method="GET")
    add("header", "cr", "a carriage return in another value", None, None, ("A", f"b\rX-Card-Number: {SECRET}"), method="GET")
    add("header", "lf", "a line end in another value", None, None, ("A", f"b\nX-Card-Number: {SECRET}"), method="GET")
    add("header", "connection", "named by Connection", None, None, ("Connection", "X-Card-Number"), ("X-Card-Number", SECRET), method="GET")
    add("header", "connection-underscores", "named by Connection, in underscores", None, None, ("Connection", "X_Card_Number"), ("X_Card_Number", SECRET), method="GET")


def codings() -> None:
    def zipped(text: str) -> bytes:
        return gzip.compress(text.encode(), mtime=0)

    def raw_deflate(text: str) -> bytes:
        squeeze = zlib.compressobj(wbits=-15)
        return squeeze.compress(text.encode()) + squeeze.flush()

    form = f"card_number={SECRET}"
    for which, text, kind in (("form", form, FORM), ("json", CARD, JSON), ("multipart", part('form-data; name="card_number"') + END, MULTIPART)):
        cases = [
            ("gzip", zipped(text), "gzip", "gzip", which != "multipart"),
            ("gzip-upper", zipped(text), "GZIP", "gzip in upper case", False),
            ("x-gzip", zipped(text), "x-gzip", "an older name", False),
            ("gzip-blank", zipped(text), " gzip ", "white space", False),
            ("gzip-twice", gzip.compress(zipped(text), mtime=0), "gzip, gzip", "gzip twice", False),
            ("gzip-named-twice", zipped(text), "gzip, gzip", "gzip once, named twice", False),
            ("gzip-identity", zipped(text), "gzip, identity", "gzip and no coding", False),
            ("identity-gzip", zipped(text), "identity, gzip", "no coding and gzip", False),
            ("gzip-comma", zipped(text), "gzip,", "a comma", False),
            ("gzip-parameter", zipped(text), "gzip;q=1", "a parameter", False),
            ("gzip-members", zipped(text[:5]) + zipped(text[5:]), "gzip", "two members", False),
            ("gzip-behind", zipped(text) + b"x", "gzip", "bytes behind the end", False),
            ("gzip-zeros", zipped(text) + b"\0" * 8, "gzip", "zeros behind the end", False),
            ("gzip-cut", zipped(text)[:-4], "gzip", "a cut end", False),
            ("gzip-plain-first", text.encode() + zipped(text), "gzip", "the text before the coded text", False),
            ("gzip-undeclared", zipped(text), None, "gzip that nothing names", False),
            ("plain-as-gzip", text.encode(), "gzip", "no gzip at all", False),
            ("plain-as-br", text.encode(), "br", "no brotli at all", False),
            ("plain-as-deflate", text.encode(), "deflate", "no deflate at all", False),
            ("plain-as-zstd", text.encode(), "zstd", "no zstd at all", False),
            ("plain-as-unknown", text.encode(), "x-none", "an unknown coding", False),
            ("plain-as-empty", text.encode(), "", "an empty coding", False),
            ("plain-as-comma", text.encode(), ",", "a comma", False),
            ("plain-as-chunked", text.encode(), "chunked", "a transfer coding", False),
            ("plain-as-aws", text.encode(), "aws-chunked", "a coding of a service", False),
            ("identity", text.encode(), "identity", "no coding", False),
            ("identity-upper", text.encode(), "Identity", "no coding in another case", False),
            ("deflate", zlib.compress(text.encode()), "deflate", "zlib", False),
            ("deflate-raw", raw_deflate(text), "deflate", "deflate without zlib", False),
            ("deflate-gzip", zipped(text), "deflate", "gzip named deflate", False),
            ("gzip-deflate", zlib.compress(text.encode()), "gzip", "zlib named gzip", False),
            ("compress", text.encode(), "compress", "an older coding", False),
        ]
        for name, body, coding, about, accepted in cases:
            fields = [("Content-Encoding", coding)] if coding is not None else []
            add("coding", f"{which}-{name}", about, body, kind, *fields, accepted=accepted)
        add("coding", f"{which}-two-fields", "the field twice", zipped(text), kind, ("Content-Encoding", "identity"), ("Content-Encoding", "gzip"))
        add("coding", f"{which}-underscore", "an underscore in the field's name", zipped(text), kind, ("Content_Encoding", "gzip"))
        add("coding", f"{which}-plain-underscore", "an underscore in the field's name", text.encode(), kind, ("Content_Encoding", "gzip"))
    for name, kind in (("form", FORM), ("multipart", MULTIPART), ("text", "text/plain")):
        add("coding", f"json-as-{name}", "coded JSON under another type", zipped(FLAT), kind, ("Content-Encoding", "gzip"))
    add("coding", "form-dot", "a coded form with a name that PHP rewrites", zipped(f"card.number={SECRET}"), FORM, ("Content-Encoding", "gzip"))
    add("coding", "form-brackets", "a coded form with a name in brackets", zipped(f"[card_number]={SECRET}"), FORM, ("Content-Encoding", "gzip"))
    add("coding", "json-title", "coded JSON with a name in another case", zipped(f'{{"Card_Number":"{SECRET}"}}'), JSON, ("Content-Encoding", "gzip"))


def main() -> None:
    for topic in (urlencoded, multipart, documents, paths, query, headers, codings):
        topic()
    for topic, cases in TOPICS.items():
        lines = ",\n".join(json.dumps(case) for case in cases)
        (HERE / f"{topic}.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
