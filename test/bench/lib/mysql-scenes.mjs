/** What becomes of queries when servers die, freeze, come and go: counted, on a client of its own for each scene. */

/** @typedef {import('./mysql-clients.mjs').MysqlClient} MysqlClient */
/** @typedef {import('./mysql-clients.mjs').Address} Address */
/** @typedef {import('../../support/databases/mariadb/servers.mjs').MariadbServers} MariadbServers */

const WORKERS = 30;
const SQL = 'SELECT @@server_id AS id';
/** A query without an answer for so long is given up and counted as failed, in ms. */
const GIVE_UP_MS = 2_000;

const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Workers that query without a pause. */
class Traffic {
  failed = 0;
  answered = 0;
  /** Longest wait for an answer or an error, in ms. */
  longest = 0;
  /** Errors that reached no caller: they would have ended the process. */
  thrown = 0;
  /** @type {Map<number, number>} */
  #answers = new Map();
  #isOver = false;
  #workers;
  #onThrown = () => {
    this.thrown++;
  };

  /** @param {MysqlClient} client */
  constructor(client) {
    process.on('uncaughtException', this.#onThrown);
    this.#workers = Promise.all(Array.from({ length: WORKERS }, () => this.#work(client)));
  }

  /** The share of one server in the answers of the next `ms`. @param {number} id @param {number} ms */
  async share(id, ms) {
    this.#answers.clear();
    await pause(ms);
    const total = [...this.#answers.values()].reduce((sum, count) => sum + count, 0);
    return total === 0 ? 0 : (this.#answers.get(id) ?? 0) / total;
  }

  async stop() {
    this.#isOver = true;
    await this.#workers;
    process.off('uncaughtException', this.#onThrown);
  }

  /** @param {MysqlClient} client */
  async #work(client) {
    while (!this.#isOver) {
      const begun = performance.now();
      /** @type {NodeJS.Timeout | undefined} */
      let patience;
      try {
        const gaveUp = new Promise((_, reject) => {
          patience = setTimeout(() => reject(new Error('no answer')), GIVE_UP_MS);
        });
        const [[{ id }]] = await Promise.race([client.query(SQL), gaveUp]);
        this.answered++;
        this.#answers.set(id, (this.#answers.get(id) ?? 0) + 1);
      } catch {
        this.failed++;
        // A client that fails at once must not keep the others from their turn.
        await pause(1);
      }
      clearTimeout(patience);
      this.longest = Math.max(this.longest, performance.now() - begun);
    }
  }
}

/** Runs `scene` under load on a client of its own. @template T @param {MysqlClient} client @param {(traffic: Traffic) => Promise<T>} scene */
async function under(client, scene) {
  const traffic = new Traffic(client);
  try {
    await traffic.share(0, 1_000);
    const result = await scene(traffic);
    await traffic.stop();
    const { failed, answered, longest, thrown } = traffic;
    return { ...result, failed, answered, longest, thrown };
  } finally {
    await traffic.stop();
    await Promise.race([client.close().catch(() => {}), pause(GIVE_UP_MS)]);
  }
}

/**
 * SIGKILL of the second server, and a restart after two seconds. `back`: its share in the third second after that.
 * @param {MariadbServers} servers @param {MysqlClient} client
 */
export const killed = (servers, client) =>
  under(client, async (traffic) => {
    const server = servers.at(1);
    await server.kill();
    await traffic.share(0, 2_000);
    await server.start();
    await traffic.share(0, 2_000);
    return { back: await traffic.share(server.id, 1_000) };
  });

/**
 * The second server answers nothing for three seconds.
 * @param {MariadbServers} servers @param {MysqlClient} client
 */
export const frozen = (servers, client) =>
  under(client, async (traffic) => {
    servers.at(1).freeze();
    try {
      await traffic.share(0, 3_000);
    } finally {
      servers.at(1).thaw();
    }
    await traffic.share(0, 1_000);
    return {};
  });

/**
 * One more server; `share`: its share from the third second on. Then it is taken away: the client is told two seconds
 * before the server gets SIGTERM.
 * @param {MariadbServers} servers @param {MysqlClient} client
 */
export const addedAndRemoved = (servers, client) =>
  under(client, async (traffic) => {
    const server = await servers.add();
    client.update(servers.endpoints);
    await traffic.share(0, 2_000);
    const share = await traffic.share(server.id, 1_000);
    const others = servers.all.filter((other) => other !== server).map(({ endpoint }) => endpoint);
    client.update(others);
    await traffic.share(0, 2_000);
    await servers.remove(server);
    await traffic.share(0, 1_000);
    return { share };
  });
