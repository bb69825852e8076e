export * from './index.js';

import * as crypto from './index.js';

export default crypto;
