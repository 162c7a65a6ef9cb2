// @ts-check
/** What all MySQL clients share: their logins, the statement, and how its result is read. */

/** Each client logs in as a user of its own name, so that the servers can tell them apart. */
export const access = {
  database: 'shop',
  password: 'shop-secret',
  users: ['ordinary', 'pool-cluster', 'evenkeel'],
};

/** Connections of each client to one address at most; mysql2's own default. */
export const CONNECTION_LIMIT = 10;

/** `report_host` is the name of the pod. */
const STATEMENT = 'SELECT @@report_host AS pod, id, state FROM orders WHERE id = 42';

/** @param {'ordinary' | 'pool-cluster' | 'evenkeel'} user */
export const logIn = (user) => ({
  user,
  password: access.password,
  database: access.database,
  connectionLimit: CONNECTION_LIMIT,
});

/** @typedef {(sql: string) => Promise<[any, any]>} Query */

/** @param {Query} query @returns {import('./client.js').Client['ask']} */
export const askOver =
  (query) =>
  async ({ deadlineMs }) => {
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    // mysql2 has separate timeouts for connections and statements. Here the caller simply stops waiting.
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer in ${deadlineMs / 1_000} s`)), deadlineMs);
    });
    try {
      const answer = query(STATEMENT);
      answer.catch(() => {}); // it may come after the time is over
      const [[row]] = /** @type {[[{ pod: string }]]} */ (await Promise.race([answer, late]));
      return { pod: row.pod };
    } catch (error) {
      return { error: kindOf(error) };
    } finally {
      clearTimeout(timer);
    }
  };

/** A short name for what went wrong. @param {any} error @returns {string} */
const kindOf = (error) => error?.code ?? String(error?.message ?? error);
