import { execFileSync, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync } from 'node:fs';
import { connect as dial } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createConnection } from 'mysql2/promise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import { isRunning } from '../../support/programs/playground.js';
import { until } from '../../support/until.js';

const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
const certificate = createCertificate({ commonName: 'mysql', hosts: ['mysql.shop'], issuer: authority });

describe.skipIf(noMariadb)(titled('the MariaDB servers of the tests'), () => {
  let world: MariadbWorld;
  beforeAll(async () => {
    world = await startMariadbs(2, {
      tls: certificate,
      args: ['--max-connections=5'],
      init: ['CREATE TABLE IF NOT EXISTS t (a INT)'],
    });
  });
  afterAll(async () => {
    await world?.close();
  });
  const connect = (index: number, more: object = {}) =>
    createConnection({ host: world.at(index).address, port: world.at(index).port, ...application, ...more });

  it('differ by server_id, have their tables and ask for a password', async () => {
    for (const [index, { id }] of world.all.entries()) {
      const connection = await connect(index);
      expect((await connection.query('SELECT @@server_id AS id'))[0]).toEqual([{ id }]);
      await connection.query('INSERT INTO t VALUES (1)');
      await connection.end();
    }
    await expect(connect(0, { password: 'wrong' })).rejects.toMatchObject({ code: 'ER_ACCESS_DENIED_ERROR' });
    await expect(connect(0, { database: 'other' })).rejects.toMatchObject({ code: 'ER_DBACCESS_DENIED_ERROR' });
  });

  it('do not run as root', () => {
    for (const { pid } of world.all) {
      const user = execFileSync('ps', ['-o', 'user=', '-p', String(pid)], { encoding: 'utf8' }).trim();
      expect(user).not.toBe('root');
    }
  });

  it('obey read_only, and take writes again when it is lifted', async () => {
    await world.at(0).setReadOnly(true);
    const connection = await connect(0);
    await expect(connection.query('INSERT INTO t VALUES (2)')).rejects.toMatchObject({ errno: 1290 });
    await world.at(0).setReadOnly(false);
    await connection.query('INSERT INTO t VALUES (2)');
    await connection.end();
  });

  it('come back on their port with their data after SIGKILL', async () => {
    const { port } = world.at(1);
    const [{ before }] = await world.at(1).sql('SELECT COUNT(*) AS `before` FROM shop.t');
    await world.at(1).kill();
    await expect(connect(1)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await world.at(1).start();
    expect(world.at(1).port).toBe(port);
    expect(await world.at(1).sql('SELECT COUNT(*) AS `before` FROM shop.t')).toEqual([{ before }]);
  });

  it("show the Service's certificate", async () => {
    const ssl = { ca: authority.cert, verifyIdentity: true };
    const { address, port } = world.at(0);
    const connection = await connect(0, { ssl, host: 'mysql.shop', stream: () => dial(port, address) });
    const [[row]] = (await connection.query("SHOW STATUS LIKE 'Ssl_cipher'")) as unknown as [[{ Value: string }]];
    expect(row.Value).not.toBe('');
    await connection.end();
  });

  it('count the connections of applications only', async () => {
    const connection = await connect(0);
    await until('only it is counted', async () => (await world.at(0).connections()) === 1);
    await connection.end();
    await until('the connection is gone', async () => (await world.at(0).connections()) === 0);
  });

  it('can be added and removed', async () => {
    const added = await world.add();
    expect(added.id).toBe(3);
    expect(world.endpoints).toHaveLength(3);
    await world.remove(added);
    expect(added.running).toBe(false);
    expect(world.endpoints).toHaveLength(2);
  });
});

describe.skipIf(noMariadb)(titled('the process that started MariaDB servers'), () => {
  it('takes them and their folder with it when it is killed', async () => {
    const module = fileURLToPath(new URL('../../support/databases/mariadb/servers.mjs', import.meta.url));
    const program = `
      import { MariadbServers } from ${JSON.stringify(module)};
      const world = await MariadbServers.start(1);
      world.at(0).freeze();
      console.log(JSON.stringify(world.describe()));
      setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk;
    });
    await until('the servers run', () => output.includes('\n'), 100_000);
    const { folder, pids } = JSON.parse(output) as { folder: string; pids: number[] };
    expect(folder.startsWith(tmpdir())).toBe(true);
    expect(pids.map(isRunning)).toEqual([true]);
    child.kill('SIGKILL');
    await until('its folder is gone', () => !existsSync(folder), 100_000);
  }, 240_000);

  it('takes them with it also if it was killed before the keeper of the folder ran', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'evenkeel-kept-'));
    const server = spawn('sleep', ['600']);
    const ended = once(server, 'exit');
    const keeper = fork(fileURLToPath(new URL('../../support/programs/keeper.cjs', import.meta.url)), [folder]);
    keeper.send({ started: server.pid });
    keeper.disconnect();
    await once(keeper, 'exit');
    expect(existsSync(folder)).toBe(false);
    await ended;
  });
});
