// Builds the native module.
//
//   node scripts/build.mjs [PROFILE]     cargo's profile; release by default

import { build } from '../../scripts/build.mjs';

build({ crate: 'leafseal-wire', name: 'wire' }, process.argv[2]);
