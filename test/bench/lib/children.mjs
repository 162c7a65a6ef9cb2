/** Child processes that say which port they listen on. */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/**
 * @typedef {object} Child
 * @property {number} port where it listens
 * @property {import('node:child_process').ChildProcess} process
 * @property {any} said all that it said when it listened
 * @property {() => void} stop
 */

/**
 * Starts a program of this folder and waits until it listens. It ends by itself when this process does.
 * @param {string} name such as `pod.mjs`
 * @param {readonly string[]} args
 * @param {string[]} execArgv options of Node
 * @returns {Promise<Child>}
 */
export async function startChild(name, args = [], execArgv = []) {
  const child = fork(fileURLToPath(new URL(name, import.meta.url)), args, { execArgv });
  const said = await new Promise((resolve, reject) => {
    child.once('message', resolve);
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`${name} ended with ${code} before it listened`)));
  });
  child.removeAllListeners('exit');
  return { port: Number(said.port), process: child, said, stop: () => child.kill() };
}
