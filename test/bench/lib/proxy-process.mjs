/**
 * Runs a proxy, never as root, and ends it when the process that wanted it is gone, whichever way that ended.
 *
 *   fork('proxy-process.mjs', [command, ...arguments]); send { signal } to pass a signal on
 */
import { spawn } from 'node:child_process';
import { unprivileged } from '../../support/programs/unprivileged.mjs';

const [command = '', ...args] = process.argv.slice(2);
const proxy = spawn(command, args, { stdio: ['ignore', 'ignore', 'inherit'], ...unprivileged() });
proxy.on('error', (error) => {
  console.error(error.message);
  process.exit(1);
});
proxy.on('exit', (code) => process.exit(code ?? 1));
const end = () => proxy.kill('SIGTERM');
process.on('message', (/** @type {{ signal: NodeJS.Signals }} */ { signal }) => proxy.kill(signal));
process.on('disconnect', end);
process.on('SIGTERM', end);
process.on('SIGINT', end);
