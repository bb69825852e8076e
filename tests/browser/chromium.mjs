// Where the browser is.

import { existsSync } from 'node:fs';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** The path of the Chromium that CHROMIUM names, else of one of the system's. Where there is none, nothing; in CI that is an error. */
export function findChromium(environment, exists = existsSync) {
  const found = [environment.CHROMIUM, ...PLACES].find(path => path && exists(path));
  if (!found && environment.CI) throw new Error('there is no Chromium: CI does not skip the tests of the page');
  return found;
}
