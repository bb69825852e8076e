// Makes the npm package that is published.
//
//   npm run pack -- [TARGET …]     the platforms of the release, for example linux-x64-gnu linux-arm64-musl darwin-arm64 win32-x64-msvc

import { pack } from '../../scripts/pack.mjs';

pack('wire', process.argv.slice(2));
