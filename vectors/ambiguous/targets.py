"""Cases outside the body: paths, queries, header fields and content codings."""

import gzip
import zlib

from corpus import ALL, FORM, JSON, MULTIPART, QUERY_ONLY, SECRET, add
from documents import CARD, FLAT
from forms import END, NAMES, PLAIN_NAMES, part


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
    # Many upstreams merge a form's fields with the parameters.
    for name, body, kind, about in [
        ("form", f"card_number={SECRET}", FORM, "a field"),
        ("form-dot", f"card.number={SECRET}", FORM, "a field that PHP reads as the parameter"),
        ("form-brackets", f"[card_number]={SECRET}", FORM, "a field that Rack reads as the parameter"),
        ("form-escaped", f"card%5Fnumber={SECRET}", FORM, "an escaped field"),
        ("form-semicolon", f"a=1;card_number={SECRET}", FORM, "a field behind a semicolon"),
        ("form-charset", f"card_number={SECRET}", f"{FORM}; charset=utf-7", "a field in another charset"),
        ("form-comma", f"card_number={SECRET}", f"{FORM}, text/plain", "two types"),
        ("form-no-type", f"card_number={SECRET}", None, "no type: Rack assumes a form"),
        ("form-empty-type", f"card_number={SECRET}", "", "an empty type"),
        ("parts", part('form-data; name="card_number"') + END, MULTIPART, "a part"),
        ("parts-dot", part('form-data; name="card.number"') + END, MULTIPART, "a part that PHP reads as the parameter"),
        ("parts-file", part('form-data; name="card_number"; filename="f"') + END, MULTIPART, "a file"),
        ("parts-mixed", part('form-data; name="card_number"') + END, "multipart/mixed; boundary=B", "parts that Rack reads"),
        ("parts-no-boundary", part('form-data; name="card_number"') + END, "multipart/form-data", "parts without a boundary"),
        ("parts-malformed", "x" + part('form-data; name="card_number"') + END, MULTIPART, "text before the parts"),
    ]:
        add("query", f"body-{name}", about, body, kind, target=f"{QUERY_ONLY}?a=1")
    add("query", "body-form-twice", "two types", f"card_number={SECRET}", "text/plain", ("Content-Type", FORM), target=f"{QUERY_ONLY}?a=1")
    body = gzip.compress(f"card_number={SECRET}".encode(), mtime=0)
    add("query", "body-form-gzip", "a compressed form", body, FORM, ("Content-Encoding", "gzip"), target=f"{QUERY_ONLY}?a=1")
    add("query", "body-form-coding", "an unknown coding", f"card_number={SECRET}", FORM, ("Content-Encoding", "x"), target=f"{QUERY_ONLY}?a=1")
    add("query", "body-other-field", "another field", "a=2", FORM, target=f"{QUERY_ONLY}?card_number={SECRET}", accepted=True)
    add("query", "body-json", "JSON", CARD, JSON, target=f"{QUERY_ONLY}?card_number={SECRET}", accepted=True)
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
