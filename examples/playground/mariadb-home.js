// @ts-check
/** A folder for the data of MariaDB servers, removed when this process ends for whatever reason. */
import { chmodSync, chownSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bootstrap, dataFolders } from '../../test/support/databases/mariadb/program.mjs';
import { admin } from '../../test/support/databases/mariadb/server.mjs';
import { KeptFolder } from '../../test/support/programs/kept-folder.mjs';
import { unprivileged } from '../../test/support/programs/unprivileged.mjs';
import { access } from './clients/mysql.js';

/** Statements every server runs at its start, one per line. Each client has its own user, so that its connections can be counted. */
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
  const kept = new KeptFolder('evenkeel-playground-');
  const folder = kept.path;
  const template = join(folder, 'template');
  const initFile = join(folder, 'init.sql');
  const folders = dataFolders(template);
  for (const path of folders) mkdirSync(path);
  writeFileSync(initFile, statements.map((statement) => `${statement};\n`).join(''), { mode: 0o600 });
  if (who.uid !== undefined && who.gid !== undefined) {
    for (const path of [folder, ...folders, initFile]) chownSync(path, who.uid, who.gid);
  }
  chmodSync(folder, 0o700);
  try {
    await bootstrap(template, who);
  } catch (error) {
    await kept.close();
    throw error;
  }
  return {
    /** @type {MariadbHome} */
    home: { folder, template, initFile },
    /** A server started or ended. @param {number} pid @param {'started' | 'ended'} what */
    note: (pid, what) => kept.tell(pid, what),
    /** Ends whatever still runs and removes the data. */
    close: () => kept.close(),
  };
}
