'use strict';

// Loads the native module in this folder, which `npm run build` creates.
module.exports = require('./wire.node');
