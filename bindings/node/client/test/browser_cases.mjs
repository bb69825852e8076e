// Values that the browser build must encrypt and values that it must refuse. Runs in Node and in pages, so it imports nothing.

/** Documents that come back as they were. */
export const documents = () => [
  'héllo ✓ 😀',
  '',
  '"\\\u0000\u2028',
  -12.5,
  true,
  null,
  {
    integer: 42, float: -3.25, small: 5e-324, large: 1e21, minusZero: -0, safe: Number.MAX_SAFE_INTEGER,
    nested: { list: [1, 'x', { no: false }, null, []], empty: {} }, 'odd name "\'': 'a', long: 'ж'.repeat(100_000),
  },
  [[['deep']], [], {}],
  JSON.parse('{"__proto__": {"card": "4111"}, "constructor": "x"}'),
  Array.from({ length: 1000 }, (_, index) => `value ${index}`),
];

const nested = depth => Array.from({ length: depth }).reduce(inner => [inner], 1);
const cycle = () => {
  const whole = { part: {} };
  whole.part.whole = whole;
  return whole;
};

/** Values that are refused: name, constructor, path and code of the error. */
const REFUSED = [
  ['NaN', () => ({ a: NaN }), '$.a'],
  ['infinity', () => [1, -Infinity], '$[1]'],
  ['BigInt', () => ({ a: { b: 1n } }), '$.a.b'],
  ['undefined', () => undefined, '$'],
  ['undefined in an array', () => ['x', undefined], '$[1]'],
  ['a hole', () => ['x', , 'y'], '$[1]'],
  ['a function', () => ({ f() {} }), '$.f'],
  ['a symbol', () => ({ s: Symbol('s') }), '$.s'],
  ['half of a pair', () => ({ 'a b': 'x\ud83d' }), '$["a b"]'],
  ['the other half', () => '\ude00x', '$'],
  ['pairs in the wrong order', () => ['\ude00\ud83d'], '$[0]'],
  ['a date', () => ({ at: new Date(0) }), '$.at'],
  ['bytes', () => ({ raw: new Uint8Array(3) }), '$.raw'],
  ['a blob', () => [new Blob(['x'])], '$[0]'],
  ['a map', () => ({ m: new Map() }), '$.m'],
  ['a boxed string', () => [new String('x')], '$[0]'],
  ['a class', () => new (class Card { number = '4111'; })(), '$'],
  ['a cycle', cycle, '$.part.whole'],
  ['too deep', () => nested(129), `$${'[0]'.repeat(128)}`, 'too_large'],
];

/** Names of the values whose encryption does not fail as required, with the outcome. */
export async function wrongRefusals(encryptor) {
  const wrong = [];
  for (const [name, make, path, code = 'invalid_value'] of REFUSED) {
    const outcome = await encryptor.encrypt(make()).catch(error => error);
    if (outcome?.code !== code || outcome.path !== path || !outcome.message.includes(path)) wrong.push([name, String(outcome)]);
    // No message shows a value.
    if (/4111|ud83d/.test(String(outcome?.message))) wrong.push([name, 'the message shows the value']);
  }
  return wrong;
}

/** Public keys that are refused, by the key of the test. */
const badKeys = key => {
  const bytes = Uint8Array.from(atob(key), character => character.charCodeAt(0));
  const changed = change => {
    const copy = bytes.slice();
    change(copy);
    return copy;
  };
  return {
    'off the curve': changed(copy => { copy[64] ^= 1; }),
    'another x': changed(copy => { copy[1] ^= 1; }),
    'y of the field size': changed(copy => copy.fill(0xff, 33)),
    'x of the field size': Uint8Array.of(2, ...Array(32).fill(0xff)),
    // 1 is the least x that no point of P-256 has.
    'no point has this x': Uint8Array.of(2, ...Array(31).fill(0), 1),
    'infinity': Uint8Array.of(0),
    'a hybrid form': changed(copy => { copy[0] = 6; }),
    'too short': bytes.slice(0, 64),
    'too long': Uint8Array.of(...bytes, 0),
    'empty': new Uint8Array(),
    'no base64': '!!!',
    'no text': 42,
    'nothing': undefined,
  };
};

/** Names of the keys that are not refused as required. */
export async function wrongKeys(Encryptor, key) {
  const outcomes = Object.entries(badKeys(key)).map(async ([name, bad]) => [name, await Encryptor.of(bad).catch(error => error.code)]);
  return (await Promise.all(outcomes)).filter(([, code]) => code !== 'invalid_key').map(([name]) => name);
}
