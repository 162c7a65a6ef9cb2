/** The program `mariadbd`: where it is, who runs it, and a data folder made for it. */
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findCommand, installHint, systemPackages } from '../../../scripts/system-packages.mjs';

const wanted = systemPackages.find(({ name }) => name === 'MariaDB');

/** Where `mariadbd` is installed; undefined when it is not. @type {string | undefined} */
export const mariadbPath = wanted && findCommand(wanted.commands);

/** The command that would install it. @type {string} */
export const mariadbHint = wanted ? installHint(wanted) : 'install MariaDB';

/** Small files and buffers: a server starts in a quarter of a second and takes 60 MB. None of its data has to last. */
export const smallServer = [
  '--innodb-data-file-path=ibdata1:4M:autoextend',
  '--innodb-autoextend-increment=1',
  '--innodb-temp-data-file-path=ibtmp1:1M:autoextend',
  '--innodb-log-file-size=4M',
  '--innodb-buffer-pool-size=8M',
  '--innodb-flush-log-at-trx-commit=2',
  '--innodb-doublewrite=OFF',
  // Some containers and file systems refuse io_uring and O_DIRECT.
  '--innodb-use-native-aio=OFF',
  '--innodb-flush-method=fsync',
  '--innodb-buffer-pool-dump-at-shutdown=OFF',
  '--innodb-buffer-pool-load-at-startup=OFF',
  '--aria-log-file-size=8M',
  '--aria-pagecache-buffer-size=1M',
  '--key-buffer-size=64K',
  '--performance-schema=OFF',
];

/** A server that starts removes what it takes for left-overs from its folder for temporary tables: none may share one. */
const temporary = (/** @type {string} */ folder) => `${folder}.tmp`;

/** The folders of a server, for its user alone. @param {string} folder @returns {string[]} */
export function dataFolders(folder) {
  return [folder, temporary(folder)];
}

/** The options that name them. @param {string} folder */
export const foldersOf = (folder) => [`--datadir=${folder}`, `--tmpdir=${temporary(folder)}`];

/** Tables of the system, in the order they are made in. */
const systemTables = ['mysql_system_tables.sql', 'mysql_performance_tables.sql', 'mysql_system_tables_data.sql'];

/** Where packages put the statements that make the system's tables. */
const shareFolders = ['/usr/share/mysql', '/usr/share/mariadb', '/usr/local/share/mysql', '/usr/local/share/mariadb'];

/** Whom a server runs as: never root. @returns {{ uid?: number, gid?: number }} */
export function unprivileged() {
  if (process.getuid?.() !== 0) return {};
  const number = (/** @type {string} */ flag) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
  return { uid: number('-u'), gid: number('-g') };
}

/**
 * Fills an empty folder with the system's tables, as `mariadb-install-db` does. That script needs programs of the client
 * package; the server alone is enough here.
 * @param {string} folder @param {{ uid?: number, gid?: number }} who
 */
export async function bootstrap(folder, who) {
  if (mariadbPath === undefined) throw new Error(`MariaDB is not installed: ${mariadbHint}`);
  const share = shareFolders.find((path) => existsSync(join(path, systemTables[0] ?? '')));
  if (share === undefined) throw new Error(`${systemTables[0]} is in none of ${shareFolders.join(', ')}`);
  // One statement a line: a bootstrapping server knows no other form.
  const statements = ['CREATE DATABASE mysql;', 'USE mysql;', 'SET @auth_root_socket=NULL;'];
  for (const file of systemTables) statements.push(readFileSync(join(share, file), 'utf8'));
  const args = ['--no-defaults', '--bootstrap', ...foldersOf(folder), ...smallServer];
  const child = spawn(mariadbPath, args, { ...who, stdio: ['pipe', 'ignore', 'pipe'] });
  let log = '';
  child.stderr.on('data', (chunk) => {
    log += chunk;
  });
  child.stdin.on('error', () => {}); // it ended early, and says why
  child.stdin.end(`${statements.join('\n')}\n`);
  const code = await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
  if (code !== 0) throw new Error(`mariadbd --bootstrap ended with ${code}:\n${lastLines(log)}`);
}

/** Made once per machine: a bootstrap takes as long as three starts. */
const kept = fileURLToPath(new URL('../../../node_modules/.cache/evenkeel/mariadb', import.meta.url));

/**
 * As `bootstrap`, from what an earlier one of the same program left behind, where there is one. `folder` is not there yet.
 * @param {string} folder @param {{ uid?: number, gid?: number }} who @param {(path: string) => void} own
 */
export async function bootstrapOnce(folder, who, own) {
  if (mariadbPath === undefined) throw new Error(`MariaDB is not installed: ${mariadbHint}`);
  const { size, mtimeMs } = statSync(mariadbPath);
  const made = join(
    kept,
    createHash('sha256')
      .update(JSON.stringify([mariadbPath, size, mtimeMs, smallServer]))
      .digest('hex'),
  );
  if (existsSync(made)) {
    cpSync(made, folder, { recursive: true });
    return;
  }
  for (const path of dataFolders(folder)) {
    mkdirSync(path);
    own(path);
  }
  await bootstrap(folder, who);
  // Complete or not there at all, whoever else makes one meanwhile.
  const mine = `${made}.${process.pid}`;
  mkdirSync(kept, { recursive: true });
  cpSync(folder, mine, { recursive: true });
  try {
    renameSync(mine, made);
  } catch {
    rmSync(mine, { recursive: true });
  }
}

/** @param {string} log */
export const lastLines = (log) => log.trimEnd().split('\n').slice(-8).join('\n');
