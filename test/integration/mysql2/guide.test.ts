import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import { buildPackage, guidePrograms, outputOf, outputOfProgram } from '../../support/programs/programs.js';

const example = fileURLToPath(new URL('../../../examples/mysql', import.meta.url));
const ownPoolCluster = readFileSync(`${example}/own-pool-cluster.js`, 'utf8');
const programs = [
  ...['mysql', 'mysql-orms'].flatMap((name) => guidePrograms(name)),
  { heading: 'Your own PoolCluster', source: ownPoolCluster, format: 'module' as const },
];
const expected: Readonly<Record<string, RegExp>> = {
  '# MySQL and MariaDB: mysql2': /^70\n$/,
  '# MySQL and MariaDB: mysql2, with require': /^70\n$/,
  'Roles: one primary, several replicas': /^100\n$/,
  'Transactions and other session state': /^booked\n$/,
  Retries: /^100\n$/,
  'Waiting and errors':
    /^EVENKEEL_CONNECT .*no endpoint can be connected to .*127\.0\.0\.1:\d+.*Access denied for user 'shop'/,
  'Rows one by one': /^50500\n$/,
  TLS: /^TLSv1\.\d\n$/,
  Knex: /^\{ price: 70 \}\n$/,
  Kysely: /^\{ price: 70 \}\n$/,
  Drizzle: /^\[ \{ price: 10 \} \]\n$/,
  Sequelize: /^30 70\n$/,
  'Your own PoolCluster': /^\[ \{ price: 70 \} \]\n$/,
};

const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
const tls = createCertificate({ commonName: 'mysql', hosts: ['mysql-read.shop'], issuer: authority });
const init = [
  'CREATE TABLE IF NOT EXISTS items (id INT PRIMARY KEY, price INT NOT NULL, stock INT NOT NULL)',
  'INSERT IGNORE INTO items SELECT seq, seq * 10, 100 FROM seq_1_to_100',
  'CREATE TABLE IF NOT EXISTS orders (id INT AUTO_INCREMENT PRIMARY KEY, item INT NOT NULL, amount INT NOT NULL)',
];

it('has the expected programs', () => {
  expect(programs.map(({ heading }) => heading)).toEqual(Object.keys(expected));
});

const targetOf = (servers: readonly { readonly address: string; readonly port: number }[]): string =>
  `'static:${servers.map(({ address, port }) => `${address}:${port}`).join(',')}'`;

const allConnected = `while (replicas.balancer.snapshot().endpoints.filter(({ state }) => state === 'ready').length < 3)
  await new Promise((resolve) => setImmediate(resolve));`;

describe.skipIf(noMariadb)(titled('the guide to MySQL'), () => {
  let world: MariadbWorld;
  beforeAll(async () => {
    await buildPackage();
    world = await startMariadbs(3, { tls, init });
  });
  afterAll(async () => {
    await world?.close();
  });

  it.each(programs)('$heading: the program runs and ends', async ({ heading, source, format }) => {
    const replicas = targetOf(world.endpoints);
    const program = source
      // An address list has no name, which TLS needs.
      .replace("target: 'mysql-read.shop:3306',\n  ssl", `target: ${replicas}, host: 'mysql-read.shop',\n  ssl`)
      .replaceAll("'mysql-read.shop:3306'", replicas)
      .replaceAll("'mysql.shop:3306'", targetOf(world.endpoints.slice(0, 1)));
    const environment = `process.env.MYSQL_PASSWORD = ${JSON.stringify(application.password)};
      process.env.MYSQL_CA = ${JSON.stringify(authority.cert)};`;
    // Imports come first, wherever they stand.
    const stdout = await outputOfProgram({ source: `${environment}\n${program}`, format }, example);
    expect(stdout).toMatch(expected[heading] as RegExp);
  });

  it('Sequelize: connections opened at once are spread over the servers', async () => {
    const { source = '' } = programs.find(({ heading }) => heading === 'Sequelize') ?? {};
    const program = source
      .replaceAll("'mysql-read.shop:3306'", targetOf(world.endpoints))
      .replace('SELECT price, SLEEP(0.1) FROM items WHERE id = 7', 'SELECT @@server_id AS id, SLEEP(0.5)')
      .replace(/console\.log\(.*\)/, 'console.log(JSON.stringify(found.map(([[row]]) => row.id)))')
      // A server that connects late gets none of the first.
      .replace('const found =', `${allConnected}\nconst found =`);
    const password = `process.env.MYSQL_PASSWORD = ${JSON.stringify(application.password)};`;
    const ids: number[] = JSON.parse(
      await outputOfProgram({ source: `${password}\n${program}`, format: 'module' }, example),
    );
    const counts = world.all.map(({ id }) => ids.filter((found) => found === id).length);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(30);
    // A third each; where the machine is slow, a connection may be used twice.
    for (const count of counts) expect(count).toBeGreaterThanOrEqual(5);
  });

  it.each([
    ['mysql-read.shop', /^TLSv1\.\d\n$/],
    ['mysql.elsewhere', /does not match certificate's altnames/],
  ])('Sequelize: connections use TLS if configured, and check the name: %s', async (name, answer) => {
    const { source = '' } = programs.find(({ heading }) => heading === 'Sequelize') ?? {};
    const program = source
      .replaceAll("'mysql-read.shop:3306'", targetOf(world.endpoints))
      .replace("host: 'mysql-read.shop'", `host: '${name}'`)
      .replace('dialectOptions: {', 'dialectOptions: { ssl: { ca: process.env.MYSQL_CA, verifyIdentity: true },')
      .replace('await Promise.all(', 'await Promise.allSettled(')
      .replace('SELECT price, SLEEP(0.1) FROM items WHERE id = 7', 'SHOW STATUS LIKE "Ssl_version"')
      .replace(/console\.log\(.*\)/, 'console.log(found[0].reason?.message ?? found[0].value[0][0].Value)');
    const environment = `process.env.MYSQL_PASSWORD = ${JSON.stringify(application.password)};
      process.env.MYSQL_CA = ${JSON.stringify(authority.cert)};`;
    expect(await outputOfProgram({ source: `${environment}\n${program}`, format: 'module' }, example)).toMatch(answer);
  });

  it('Sequelize: connections opened one after the other are spread over two servers', async () => {
    const { source = '' } = programs.find(({ heading }) => heading === 'Sequelize') ?? {};
    const program = source
      .replaceAll("'mysql-read.shop:3306'", targetOf(world.endpoints.slice(0, 2)))
      .replace('maxUses: 1_000', 'maxUses: 1')
      .replace(
        /const found = [\s\S]*?\);\nconsole\.log\(.*\);/,
        `const ids = [];
        for (let i = 0; i < 10; i++) ids.push((await sequelize.query('SELECT @@server_id AS id'))[0][0].id);
        console.log(JSON.stringify(ids));`,
      );
    const password = `process.env.MYSQL_PASSWORD = ${JSON.stringify(application.password)};`;
    const ids: number[] = JSON.parse(
      await outputOfProgram({ source: `${password}\n${program}`, format: 'module' }, example),
    );
    for (const { id } of world.all.slice(0, 2))
      expect(ids.filter((found) => found === id).length).toBeGreaterThanOrEqual(2);
  });

  it('Your own PoolCluster: servers leave and return under load, and neither a query nor a transaction fails', async () => {
    const [recipe = ''] = ownPoolCluster.split('while (nodes.size');
    const program = recipe.replace(
      "resolverFrom('mysql-read.shop:3306')",
      '{ watch: ({ update }) => (publish = update, { close() {} }) }',
    );
    const source = `process.env.MYSQL_PASSWORD = ${JSON.stringify(application.password)};
      import { createEndpoint } from 'evenkeel';
      const all = ${JSON.stringify(world.endpoints)}.map(createEndpoint);
      let publish;
      ${program}
      publish(all);
      let isOver = false;
      const answers = {};
      const who = async () => {
        const [[{ id }]] = await cluster.of('*').query('SELECT @@server_id AS id');
        answers[id] = (answers[id] ?? 0) + 1;
      };
      const worker = async () => { while (!isOver) await who(); };
      const workers = Promise.all(Array.from({ length: 30 }, worker));
      const until = async (isTrue) => { while (!isTrue()) await pause(10); };
      const answered = (id) => { const from = answers[id] ?? 0; return until(() => answers[id] >= from + 100); };
      for (let round = 0; round < 3; round++) {
        await answered(3);
        publish(all.slice(0, 2));
        await until(() => nodes.size === 2);
        const before = answers[3];
        await answered(1);
        if (answers[3] !== before) throw new Error('it was used after it was removed');
        publish(all);
      }
      await answered(3);
      const held = await cluster.getConnection(all[2].key);
      await held.query('START TRANSACTION');
      publish(all.slice(0, 2));
      await until(() => nodes.get(all[2].key).sockets.size === 1);
      await answered(1);
      await held.query('INSERT INTO orders (item, amount) VALUES (1, 1)');
      isOver = true;
      await workers;
      await held.query('COMMIT');
      held.release();
      await until(() => nodes.size === 2);
      await cluster.end();
      console.log('done');`;
    const stdout = await outputOfProgram({ source, format: 'module' }, example);
    expect(stdout).toBe('done\n');
    expect(await world.at(2).sql('SELECT COUNT(*) AS count FROM shop.orders')).toEqual([{ count: 1 }]);
  });

  it('the example runs to its end', async () => {
    const stdout = await outputOf(['main.js'], example);
    const [three, four, killed, back] = stdout.split('\n');
    expect(three).toMatch(/^three replicas: +\{ 'server 2': 300, 'server 3': 300, 'server 4': 300 \}$/);
    expect(four).toMatch(/^a fourth one joined: .*'server 5'/);
    expect(killed).toMatch(/^one killed meanwhile: .*'server 3': \d+, 'server 4': \d+, 'server 5': \d+ \}$/);
    expect(back).toMatch(/^it is back: .*'server 2'/);
    expect(stdout).toMatch(/^primary is read-only: +ER_OPTION_PREVENTS_STATEMENT$/m);
    expect(stdout).toMatch(/^stock and orders agree: +95 left of 100, 5 ordered$/m);
    expect(stdout).toMatch(/^reads that failed: +0$/m);
  });
});
