"""Cases whose body is a form: names of fields, percent-encoding, charsets, and the parts of multipart bodies."""

from corpus import ALL, FORM, FORM_ONLY, JSON, MULTIPART, SECRET, add

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
        ("empty-then-file", 'form-data; name=""; filename="card_number"', "Rack takes a file name for an empty name"),
        ("empty", 'form-data; name=""', "an empty name"),
        ("parameter-before", 'form-data; x=1; name="card_number"', "a parameter before the name"),
        ("colon-before", 'form-data; x=":"; name="card_number"', "Rack finds no name behind a colon"),
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
        ("colon-then-id", part(f'form-data; x=":"; name="a"', SECRET, "Content-ID: card_number"), "Rack finds no name behind a colon, and takes Content-ID"),
        ("id-of-another", part(OTHER, SECRET, "Content-ID: card_number"), "Content-ID beside another name"),
        ("empty-then-type", part('form-data; name=""', SECRET, "Content-Type: card_number"), "Rack takes the type for an empty name of a list"),
        ("empty-then-id", part('form-data; name=""', SECRET, "Content-ID: card_number"), "Content-ID beside an empty name"),
        ("prefixed", f"--B\r\nX-Content-Disposition: form-data; name=card_number\r\nContent-Disposition: {OTHER}\r\n\r\n{SECRET}\r\n", "Rack searches the whole head"),
        ("prefixed-behind", f"--B\r\nContent-Disposition: {OTHER}\r\nX-Content-Disposition: {headed}\r\n\r\n{SECRET}\r\n", "Rack searches the whole head"),
        ("in-value", f"--B\r\nX: Content-Disposition: {headed}\r\nContent-Disposition: {OTHER}\r\n\r\n{SECRET}\r\n", "Rack searches the whole head"),
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
    hidden = f"--B,x\r\nContent-Disposition: {OTHER}\r\n\r\nz\r\n--B\r\nContent-Disposition: {headed}\r\n\r\n{SECRET}\r\n--B--\r\n\r\n--B,x--"
    for name, kind, about in [
        ("boundary-comma", 'multipart/form-data; boundary="B,x"', "PHP and Rack end a boundary at a comma"),
        ("boundary-comma-bare", "multipart/form-data; boundary=B,x", "PHP and Rack end a boundary at a comma"),
        ("boundary-within", 'multipart/form-data; boundary="B,x boundary=B"', "Rack takes the last boundary"),
    ]:
        for route, ending in ((ALL, ""), (FORM_ONLY, "-at-form")):
            add(topic, f"{name}{ending}", about, hidden, kind, target=route)
    utf_16 = part(headed, SECRET).split("\r\n\r\n")[0].encode() + b"\r\nContent-Type: text/plain; charset=utf-16le\r\n\r\n"
    add(topic, "value-utf-16", "a value in another charset", utf_16 + SECRET.encode("utf-16le") + b"\r\n" + END.encode(), MULTIPART)
