// Loaded by every Node of a container, through NODE_OPTIONS, also by npm and by Nodes that evenkeel does not support:
// so it is written for Node 12, and nothing that goes wrong here stops an app.
'use strict';

const { existsSync } = require('fs');
const { createRequire } = require('module');
const { join } = require('path');

const [major, minor] = process.versions.node.split('.').map(Number);

if (major > 20 || (major === 20 && minor >= 19)) {
  try {
    const home = existsSync(join(__dirname, 'node_modules', 'evenkeel')) ? __dirname : '/evenkeel';
    createRequire(join(home, 'register.cjs'))('evenkeel/register');
  } catch (error) {
    const [reason] = String(error && error.message).split('\n');
    process.stderr.write(`evenkeel: not loaded, the app runs without it: ${reason}\n`);
  }
}
