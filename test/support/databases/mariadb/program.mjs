/** The program `mariadbd`: where it is, and how to create its data folder. */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findCommand, installHint, systemPackages } from '../../../../scripts/system-packages.mjs';
import { madeOnce } from '../../programs/made-once.mjs';

const wanted = systemPackages.find(({ name }) => name === 'MariaDB');

/** Path of `mariadbd`; undefined if not installed. @type {string | undefined} */
export const mariadbPath = wanted && findCommand(wanted.commands);

/** The command that installs it. @type {string} */
export const mariadbHint = wanted ? installHint(wanted) : 'install MariaDB';

/** Small files and buffers: a server starts in a quarter of a second and takes 60 MB. Its data need not last. */
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

/** At its start a server removes what it considers left-overs from its folder for temporary tables, so servers must not share one. */
const temporary = (/** @type {string} */ folder) => `${folder}.tmp`;

/** A server's private folders. @param {string} folder @returns {string[]} */
export function dataFolders(folder) {
  return [folder, temporary(folder)];
}

/** The options that name them. @param {string} folder */
export const foldersOf = (folder) => [`--datadir=${folder}`, `--tmpdir=${temporary(folder)}`];

/** System tables, in the order they are created. */
const systemTables = ['mysql_system_tables.sql', 'mysql_performance_tables.sql', 'mysql_system_tables_data.sql'];

/** Where packages put the statements that create the system tables. */
const shareFolders = ['/usr/share/mysql', '/usr/share/mariadb', '/usr/local/share/mysql', '/usr/local/share/mariadb'];

/**
 * Fills an empty folder with the system tables, like `mariadb-install-db`. That script needs programs from the client package;
 * here the server alone is enough.
 * @param {string} folder @param {{ uid?: number, gid?: number }} who
 */
export async function bootstrap(folder, who) {
  if (mariadbPath === undefined) throw new Error(`MariaDB is not installed: ${mariadbHint}`);
  const share = shareFolders.find((path) => existsSync(join(path, systemTables[0] ?? '')));
  if (share === undefined) throw new Error(`${systemTables[0]} is in none of ${shareFolders.join(', ')}`);
  // One statement per line: a bootstrapping server knows no other form.
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

/**
 * Like `bootstrap`, from the result of an earlier one with the same program, if there is one: a bootstrap takes as long as three
 * starts. `folder` does not exist yet.
 * @param {string} folder @param {{ uid?: number, gid?: number }} who @param {(path: string) => void} own
 */
export async function bootstrapOnce(folder, who, own) {
  if (mariadbPath === undefined) throw new Error(`MariaDB is not installed: ${mariadbHint}`);
  const fill = async () => {
    for (const path of dataFolders(folder)) {
      mkdirSync(path);
      own(path);
    }
    await bootstrap(folder, who);
  };
  await madeOnce({ folder, program: mariadbPath, kind: 'mariadb', settings: smallServer, fill });
}

/** @param {string} log */
export const lastLines = (log) => log.trimEnd().split('\n').slice(-8).join('\n');
