'use strict';

// A copy of a package by an edit of `require.cache`.

const { dirname, join } = require('node:path');

/** Loads `entry` again, with or without its native module. */
module.exports = (entry, isNativeToo) => {
  for (const file of Object.keys(require.cache)) {
    if (file.startsWith(join(dirname(entry), '/')) && file !== __filename && (isNativeToo || !file.endsWith('.node'))) delete require.cache[file];
  }
  const made = require(entry);
  // Else Node's list of what this file has required keeps every copy.
  module.children.length = 0;
  return made;
};
