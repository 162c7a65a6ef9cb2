// @ts-check
/** A folder for the data of MariaDB servers, made once; and the process that leaves nothing of it, however this one ends. */
import { fork } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bootstrap, dataFolders, unprivileged } from '../../test/support/mariadb/program.mjs';
import { admin } from '../../test/support/mariadb/server.mjs';
import { access } from './clients/mysql.js';

const KEEPER = fileURLToPath(new URL('../../test/support/mariadb/keeper.mjs', import.meta.url));

/** Statements every server runs when it starts, one a line. Each client has a user of its own, by whom its connections are counted. */
const statements = [
  `CREATE USER IF NOT EXISTS '${admin.user}'@'%' IDENTIFIED BY '${admin.password}'`,
  `GRANT ALL ON *.* TO '${admin.user}'@'%'`,
  `CREATE DATABASE IF NOT EXISTS ${access.database}`,
  `USE ${access.database}`,
  'CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY, state VARCHAR(20) NOT NULL)',
  "INSERT IGNORE INTO orders VALUES (42, 'paid')",
  ...access.users.flatMap((user) => [
    `CREATE USER IF NOT EXISTS '${user}'@'%' IDENTIFIED BY '${access.password}'`,
    `GRANT SELECT ON ${access.database}.* TO '${user}'@'%'`,
  ]),
];

/** What a pod has to know of it. @typedef {{ folder: string, template: string, initFile: string }} MariadbHome */

export async function createMariadbHome() {
  const who = unprivileged();
  const folder = mkdtempSync(join(tmpdir(), 'evenkeel-playground-'));
  // A group of its own: what ends ours leaves it the time to tidy up.
  const keeper = fork(KEEPER, [folder], { execArgv: [], detached: true, stdio: 'ignore' });
  keeper.on('error', () => {});
  keeper.unref();
  keeper.channel?.unref();

  const template = join(folder, 'template');
  const initFile = join(folder, 'init.sql');
  const folders = dataFolders(template);
  for (const path of folders) mkdirSync(path);
  writeFileSync(initFile, statements.map((statement) => `${statement};\n`).join(''), { mode: 0o600 });
  if (who.uid !== undefined && who.gid !== undefined) {
    for (const path of [folder, ...folders, initFile]) chownSync(path, who.uid, who.gid);
  }
  chmodSync(folder, 0o700);
  /** Ends what still runs and removes the data. */
  async function close() {
    if (keeper.exitCode !== null || keeper.signalCode !== null) return;
    const gone = new Promise((resolve) => keeper.once('exit', resolve));
    keeper.ref();
    if (keeper.connected) keeper.disconnect();
    await gone;
  }
  try {
    await bootstrap(template, who);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    /** @type {MariadbHome} */
    home: { folder, template, initFile },
    /** A server began or ended. @param {number} pid @param {'started' | 'ended'} what */
    note: (pid, what) => {
      if (keeper.connected) keeper.send({ [what]: pid });
    },
    close,
  };
}
