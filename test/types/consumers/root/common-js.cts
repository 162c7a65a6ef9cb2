import evenkeel = require('evenkeel');

const resolver: evenkeel.Resolver = evenkeel.staticEndpoints([{ address: '10.0.0.1', port: 80 }]);
export = resolver;
