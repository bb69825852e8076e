//! Frames and lists of values against `rmpv`, an independent implementation of MessagePack.

use leafseal_protocol::{
    EncryptOptions, EncryptParams, FrameLimits, Message, NumberBuffer, RawValues, Scalar, Scanner, Text, TextKind,
    ValueFault, request, write,
};
use proptest::prelude::*;
use rmpv::Value;

/// Any value, with all formats that `rmpv` writes.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any_scalar(),
        prop_oneof![0usize..40, 250usize..260, 65_530usize..65_540].prop_map(|size| Value::Binary(vec![0xc1; size])),
        (any::<i8>(), 0usize..20).prop_map(|(kind, size)| Value::Ext(kind, vec![0x90; size])),
    ];
    leaf.prop_recursive(4, 64, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::Array),
            prop::collection::vec((inner.clone(), inner), 0..20).prop_map(Value::Map),
        ]
    })
}

fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::Boolean),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::F64),
        ".{0,40}".prop_map(Value::from),
        (30usize..34).prop_map(|size| Value::from("x".repeat(size))),
        (254usize..258).prop_map(|size| Value::from("é".repeat(size / 2))),
    ]
}

fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, value).expect("a Vec takes everything");
    bytes
}

fn as_rmpv(scalar: Scalar<'_>) -> Value {
    match scalar {
        Scalar::Nil => Value::Nil,
        Scalar::Bool(value) => Value::Boolean(value),
        Scalar::UInt(value) => Value::from(value),
        Scalar::Int(value) => Value::from(value),
        Scalar::Float(value) => Value::F64(value),
        Scalar::Str(text) => Value::from(text.as_str()),
    }
}

/// A request `encrypt` written by `rmpv`, with the list of values first or last.
fn encrypt_frame(values: Vec<Value>, values_first: bool) -> Vec<u8> {
    let mut fields = vec![(Value::from("app"), Value::from("acme")), (Value::from("values"), Value::Array(values))];
    if values_first {
        fields.reverse();
    }
    let params = Value::Array(vec![Value::Map(fields)]);
    encode(&Value::Array(vec![Value::from(0), Value::from(9), Value::from("encrypt"), params]))
}

/// Runs `check` on the values of an `encrypt` request.
fn with_values(frame: &[u8], check: impl FnOnce(RawValues<'_>)) {
    assert_eq!(Scanner::new(FrameLimits::default()).scan(frame), Ok(Some(frame.len())));
    let Ok(Message::Request { id: 9, method: "encrypt", params }) = Message::parse(frame) else {
        panic!("a request");
    };
    check(EncryptParams::decode(params).expect("good parameters").values);
}

proptest! {
    #[test]
    fn the_scanner_ends_a_frame_where_rmpv_does(value in any_value(), behind in any::<[u8; 3]>()) {
        let frame = encode(&value);
        let mut stream = frame.clone();
        stream.extend_from_slice(&behind);
        let mut scanner = Scanner::new(FrameLimits::default());
        prop_assert_eq!(scanner.scan(&stream), Ok(Some(frame.len())));
        prop_assert_eq!(scanner.scan(&frame[..frame.len() - 1]), Ok(None), "one byte short is no frame");
        prop_assert_eq!(scanner.scan(&frame), Ok(Some(frame.len())), "and continues from there");
    }

    #[test]
    fn values_decode_as_rmpv_encoded_them(values in prop::collection::vec(any_scalar(), 0..40), first: bool) {
        with_values(&encrypt_frame(values.clone(), first), |list| {
            assert_eq!(list.count() as usize, values.len());
            let decoded: Vec<Value> = list.iter().map(|scalar| as_rmpv(scalar.expect("a scalar"))).collect();
            assert_eq!(decoded, values);
        });
    }

    #[test]
    fn rmpv_decodes_what_we_encode(values in prop::collection::vec(any_scalar(), 0..40), id: u32) {
        let frame = encrypt_frame(values.clone(), false);
        let mut out = Vec::new();
        with_values(&frame, |list| {
            let scalars: Vec<Scalar<'_>> = list.iter().map(|scalar| scalar.expect("a scalar")).collect();
            request::encrypt(id, &EncryptOptions::new("acme"), scalars.into_iter(), &mut out);
        });
        let decoded = rmpv::decode::read_value(&mut &out[..]).expect("well-formed");
        prop_assert_eq!(&decoded[1], &Value::from(id));
        prop_assert_eq!(&decoded[3][0]["values"], &Value::Array(values));
        prop_assert_eq!(encode(&decoded), out, "in the shortest formats, as rmpv writes them");
    }

    #[test]
    fn an_iteration_resumes_from_any_position(values in prop::collection::vec(any_scalar(), 0..40), cut in 0u32..41) {
        with_values(&encrypt_frame(values.clone(), false), |list| {
            let mut front = list.iter();
            let read: Vec<Value> = front.by_ref().take(cut as usize).map(|s| as_rmpv(s.expect("a scalar"))).collect();
            let mut skipped = list.iter();
            skipped.skip_values(cut).expect("well-formed");
            assert_eq!(front.position(), skipped.position());
            assert_eq!(front.position().index() as usize, read.len());
            let rest = list.iter_from(front.position()).map(|s| as_rmpv(s.expect("a scalar")));
            assert_eq!(read.into_iter().chain(rest).collect::<Vec<_>>(), values);
        });
    }

    #[test]
    fn pieces_bounded_in_count_and_bytes_make_up_the_list(
        values in prop::collection::vec(any_scalar(), 0..40),
        count_max in 0u32..10,
        size_max in 0usize..300,
    ) {
        with_values(&encrypt_frame(values.clone(), false), |list| {
            let (mut iterator, mut pieces) = (list.iter(), 0);
            let mut read = Vec::new();
            while iterator.position().index() < list.count() {
                let begin = iterator.position();
                iterator.skip_bounded(count_max, size_max).expect("well-formed");
                let count = iterator.position().index() - begin.index();
                let piece: Vec<Value> =
                    list.iter_from(begin).take(count as usize).map(|s| as_rmpv(s.expect("a scalar"))).collect();
                let size = |piece: &[Value]| piece.iter().map(|value| encode(value).len()).sum::<usize>();
                assert!(count >= 1 && count <= count_max.max(1));
                assert!(count == 1 || size(&piece[..piece.len() - 1]) < size_max, "it ends with the value that passes");
                read.extend(piece);
                pieces += 1;
            }
            assert_eq!(read, values);
            assert!(pieces <= list.count());
            iterator.skip_bounded(1, 1).expect("nothing behind the end");
            assert_eq!(iterator.position().index(), list.count());
        });
    }

    #[test]
    fn integers_are_written_in_the_shortest_format(value: i64, large: u64) {
        for (scalar, expected) in [
            (Scalar::Int(value.min(-1)), Value::from(value.min(-1))),
            (Scalar::UInt(large), Value::from(large)),
        ] {
            let mut out = Vec::new();
            write::scalar(&scalar, &mut out);
            prop_assert_eq!(out, encode(&expected));
        }
    }
}

#[test]
fn every_integer_format_is_read() {
    let rows: &[(&[u8], Scalar<'static>)] = &[
        (&[0x00], Scalar::UInt(0)),
        (&[0x7f], Scalar::UInt(127)),
        (&[0xe0], Scalar::Int(-32)),
        (&[0xff], Scalar::Int(-1)),
        (&[0xcc, 0x05], Scalar::UInt(5)),
        (&[0xcd, 0x00, 0x05], Scalar::UInt(5)),
        (&[0xce, 0, 0, 0, 5], Scalar::UInt(5)),
        (&[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], Scalar::UInt(u64::MAX)),
        (&[0xd0, 0x05], Scalar::UInt(5)),
        (&[0xd0, 0x80], Scalar::Int(-128)),
        (&[0xd1, 0xff, 0xff], Scalar::Int(-1)),
        (&[0xd2, 0x80, 0, 0, 0], Scalar::Int(i64::from(i32::MIN))),
        (&[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0], Scalar::Int(i64::MIN)),
        (&[0xd3, 0, 0, 0, 0, 0, 0, 0, 5], Scalar::UInt(5)),
        (&[0xca, 0x3d, 0xcc, 0xcc, 0xcd], Scalar::Float(0.1)),
        (&[0xdb, 0, 0, 0, 1, b'x'], Scalar::from("x")),
        (&[0xda, 0, 1, b'x'], Scalar::from("x")),
        (&[0xd9, 1, b'x'], Scalar::from("x")),
    ];
    for (bytes, expected) in rows {
        with_values(&raw_frame(bytes), |list| {
            assert_eq!(list.iter().collect::<Vec<_>>(), [Ok(*expected)], "{bytes:02x?}");
        });
    }
}

/// A request `encrypt` whose list holds one value of the given bytes, and then 5.
fn raw_frame(value: &[u8]) -> Vec<u8> {
    let mut frame = encrypt_frame(vec![Value::Nil], false);
    assert_eq!(frame.pop(), Some(0xc0));
    frame.extend_from_slice(value);
    frame
}

#[test]
fn values_that_are_not_scalars_are_named_with_their_index() {
    let rows: &[(Value, &str)] = &[
        (Value::Binary(vec![1]), "found a binary"),
        (Value::Array(vec![]), "found an array"),
        (Value::Map(vec![]), "found a map"),
        (Value::Ext(1, vec![0]), "found an extension"),
        (Value::F64(f64::NAN), "NaN"),
        (Value::F64(f64::NEG_INFINITY), "infinities"),
        (Value::F32(f32::INFINITY), "infinities"),
    ];
    for (bad, expected) in rows {
        let values = vec![Value::from("a"), Value::Nil, bad.clone(), Value::from("b")];
        with_values(&encrypt_frame(values, false), |list| {
            let mut values = list.iter();
            assert_eq!(values.by_ref().take(2).filter(Result::is_ok).count(), 2);
            let error = values.next().expect("a third").expect_err("no scalar");
            assert_eq!(error.index, 2);
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(values.next(), None, "an error ends the iteration");
        });
    }
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    // A lone continuation byte, an overlong slash, a surrogate, a code point beyond the last.
    for bad in [&b"\x80"[..], b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"abcdefghijklmnopqrstuvwxyz\xff"] {
        let mut value = vec![0xd9, bad.len() as u8];
        value.extend_from_slice(bad);
        with_values(&raw_frame(&value), |list| {
            let error = list.iter().next().expect("one value").expect_err("not UTF-8");
            assert_eq!((error.index, error.fault), (0, ValueFault::InvalidUtf8));
        });
    }
}

#[test]
fn a_list_of_strings_refuses_all_else() {
    for (bad, expected) in [(Value::Nil, "nil"), (Value::from(3), "an integer"), (Value::Map(vec![]), "a map")] {
        with_values(&encrypt_frame(vec![Value::from("ev:"), bad], false), |list| {
            let mut strings = list.strings();
            assert_eq!(strings.next(), Some(Ok(Text::from("ev:"))));
            let error = strings.next().expect("a second").expect_err("no string");
            assert_eq!(error.to_string(), format!("field `values`, index 1: expected a string, found {expected}"));
            assert_eq!(strings.next(), None);
        });
    }
}

#[test]
fn a_list_of_strings_resumes_from_any_position() {
    let texts = ["a", "", "ev:", "Zoë"];
    with_values(&encrypt_frame(texts.map(Value::from).to_vec(), false), |list| {
        for cut in 0..=texts.len() {
            let mut front = list.strings();
            assert_eq!(front.by_ref().take(cut).filter(Result::is_ok).count(), cut);
            let rest = list.strings_from(front.position()).map(|text| text.expect("a string").as_str());
            assert_eq!(rest.collect::<Vec<_>>(), texts[cut..]);
        }
    });
}

#[test]
fn values_give_the_text_that_is_sealed() {
    type Sealed<'a> = Option<(TextKind, &'a [u8])>;
    let rows: [(Scalar<'static>, Sealed<'_>); 9] = [
        (Scalar::Nil, None),
        (Scalar::Bool(true), Some((TextKind::Boolean, b"true"))),
        (Scalar::Bool(false), Some((TextKind::Boolean, b"false"))),
        (Scalar::UInt(u64::MAX), Some((TextKind::Number, b"18446744073709551615"))),
        (Scalar::Int(i64::MIN), Some((TextKind::Number, b"-9223372036854775808"))),
        (Scalar::Float(1e21), Some((TextKind::Number, b"1e+21"))),
        (Scalar::Float(12.5), Some((TextKind::Number, b"12.5"))),
        (Scalar::from(""), Some((TextKind::String, b""))),
        (Scalar::from("42"), Some((TextKind::String, b"42"))),
    ];
    let mut buffer = NumberBuffer::new();
    for (scalar, expected) in rows {
        assert_eq!(scalar.text(&mut buffer), expected);
    }
}
