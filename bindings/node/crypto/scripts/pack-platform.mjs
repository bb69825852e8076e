// Makes the npm package of one platform from a built module: `npm run pack-platform -- [TARGET [MODULE [FOLDER]]]`.

import { packPlatform } from '../../scripts/pack-platform.mjs';

packPlatform('crypto', ...process.argv.slice(2));
