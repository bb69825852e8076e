'use strict';

// The whole package is the native module beside this file; `npm run build` makes it.
module.exports = require('./wire.node');
