/** Real servers never run as root. */
import { execFileSync } from 'node:child_process';
import { chownSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** @typedef {{ uid?: number, gid?: number }} User */

/** The user a server runs as; empty = the current one. @returns {User} */
export function unprivileged() {
  if (process.getuid?.() !== 0) return {};
  const number = (/** @type {string} */ flag) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
  return { uid: number('-u'), gid: number('-g') };
}

/** Gives a path and everything below it to a user. @param {string} path @param {User} user */
export function give(path, { uid, gid }) {
  if (uid === undefined || gid === undefined) return;
  chownSync(path, uid, gid);
  if (!statSync(path).isDirectory()) return;
  for (const entry of readdirSync(path, { withFileTypes: true, recursive: true })) {
    chownSync(join(entry.parentPath, entry.name), uid, gid);
  }
}
