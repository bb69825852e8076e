// The conversations of all clients: those of vectors/client, and generated ones in a file that tests/node/run.sh names.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { play } from './conversation.mjs';

const folder = fileURLToPath(new URL('../../../../vectors/client/conversations/', import.meta.url));

for (const file of readdirSync(folder).sort()) {
  const conversation = JSON.parse(readFileSync(`${folder}${file}`, 'utf8'));
  test(`${file}: ${conversation.name}`, () => assert.deepEqual(play(conversation), conversation.expect));
}

test('generated conversations', { skip: !process.env.LEAFSEAL_CONVERSATIONS }, () => {
  let count = 0;
  for (const line of readFileSync(process.env.LEAFSEAL_CONVERSATIONS, 'utf8').split('\n').filter(Boolean)) {
    const conversation = JSON.parse(line);
    assert.deepEqual(play(conversation), conversation.expect, conversation.name);
    count += 1;
  }
  assert.ok(count > 0);
});
