// A missing browser is reported, and is a failure in CI.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { findChromium } from './chromium.mjs';

test('where there is no Chromium tests are skipped, but not in CI', () => {
  const nowhere = () => false;
  assert.equal(findChromium({}, nowhere), undefined);
  assert.throws(() => findChromium({ CI: 'true' }, nowhere), /no Chromium/);
  assert.equal(findChromium({ CI: 'true', CHROMIUM: '/opt/chromium' }, path => path === '/opt/chromium'), '/opt/chromium');
  assert.equal(findChromium({ CI: 'true' }, path => path === '/usr/bin/chromium-browser'), '/usr/bin/chromium-browser');
});
