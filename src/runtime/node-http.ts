import type http from 'node:http';

/**
 * The module node:http. It is not imported, because an `import` reads all exports of the module. One of these loads the copy of undici
 * inside Node.js, which takes time, and makes its Agent the default for the application's own copy of undici.
 */
export const nodeHttp: typeof http = process.getBuiltinModule('node:http');
