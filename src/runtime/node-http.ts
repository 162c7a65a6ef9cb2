import type http from 'node:http';

/**
 * The module node:http without an `import`, which would read each of its exports. One of them loads Node's own undici, which takes time at
 * the start, and its Agent would become the global dispatcher of the app's own copy of undici.
 */
export const nodeHttp: typeof http = process.getBuiltinModule('node:http');
