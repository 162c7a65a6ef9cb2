// @ts-check
/** A pod's MySQL port if MariaDB is installed: a real server that this process starts, slows down, queries and ends. */
import { chownSync, cpSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createConnection } from 'mysql2/promise';
import { dataFolders } from '../../../test/support/databases/mariadb/program.mjs';
import { admin, MariadbServer } from '../../../test/support/databases/mariadb/server.mjs';
import { unprivileged } from '../../../test/support/programs/unprivileged.mjs';
import { access } from '../clients/mysql.js';

const LOOK_MS = 300;
// A server that gets a tenth of the processor, in slices of this length, as under a CPU limit.
const PERIOD_MS = 100;
const AWAKE_MS = 10;

const COUNT = 'SELECT user, COUNT(*) AS open FROM information_schema.processlist GROUP BY user';

/** @type {import('./pod.js').Serve} */
export function serveMariadb({ name, work, connections, mariadb }) {
  if (mariadb === undefined) throw new Error('a MariaDB server needs a folder');
  const { folder, template, initFile } = mariadb;
  const data = join(folder, name);
  const who = unprivileged();
  /** @type {MariadbServer} */
  let server;
  let leaving = false;

  /** Says once in a while how many connections each user has. */
  async function look() {
    const connection = await createConnection({ host: server.address, port: server.port, ...admin });
    setInterval(async () => {
      if (leaving || work.fault === 'slow') return; // its answer would be late, and tell what was known
      try {
        const [rows] = await connection.query(COUNT);
        const open = new Map(/** @type {any[]} */ (rows).map((row) => [row.user, Number(row.open)]));
        for (const user of access.users) connections.tell(`mysql/${user}`, open.get(user) ?? 0);
      } catch {
        // It ends; so does this process.
      }
    }, LOOK_MS);
    connection.on('error', () => {});
  }

  return {
    async listen(address, port) {
      // After a kill -9 the data are there: the server recovers them.
      if (!existsSync(data)) {
        for (const path of dataFolders(data)) mkdirSync(path);
        cpSync(template, data, { recursive: true });
        for (const path of dataFolders(data)) own(path, who);
      }
      server = new MariadbServer({
        name,
        id: 1,
        address,
        port: port === 0 ? await freePort(address) : port,
        folder: data,
        initFile,
        args: [`--report-host=${name}`],
        who,
        onProcess: (pid, what) => {
          process.send?.({ type: 'process', pid, what });
          // A container ends with its main process.
          if (what === 'ended' && !leaving) process.exit(1);
        },
      });
      // If this process exits for any reason, its server does too.
      process.on('exit', () => {
        if (server.pid !== undefined) process.kill(server.pid, 'SIGKILL');
      });
      await server.start();
      void look().catch(() => {});
      setInterval(() => {
        if (work.fault !== 'slow') return;
        server.freeze();
        setTimeout(() => server.thaw(), PERIOD_MS - AWAKE_MS);
      }, PERIOD_MS);
      return server.port;
    },
    async leave() {
      leaving = true;
      await server.stop();
      for (const path of dataFolders(data)) rmSync(path, { recursive: true, force: true });
    },
  };
}

/** @param {string} path @param {{ uid?: number, gid?: number }} who */
function own(path, { uid, gid }) {
  if (uid === undefined || gid === undefined) return;
  chownSync(path, uid, gid);
  for (const entry of readdirSync(path, { withFileTypes: true, recursive: true })) {
    chownSync(join(entry.parentPath, entry.name), uid, gid);
  }
}

/** @param {string} address @returns {Promise<number>} */
const freePort = (address) =>
  new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, address, () => {
      const bound = probe.address();
      probe.close(() => resolve(typeof bound === 'object' && bound !== null ? bound.port : 0));
    });
  });
