import wire = require("@leafseal/wire");

const request: Buffer = wire.encodeEncrypt(1, { app: 'acme', curve: 'r1' }, ['a', 1]);
const decoder = new wire.Decoder();
decoder.push(request);
const answer: wire.Answer | null = decoder.next();
// @ts-expect-error no such curve
wire.encodeEncrypt(1, { app: 'acme', curve: 'p384' }, []);
export = answer;
