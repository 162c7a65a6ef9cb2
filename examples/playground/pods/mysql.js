// @ts-check
/** A pod's MySQL port if MariaDB is not installed: mysql2's own server side, enough for one statement. */
import * as mysql2 from 'mysql2';

/** No TLS, no compression, no plug-ins for passwords. */
const CAPABILITIES = 0x00ff_f7df & ~0x0000_0820;
const UNKNOWN_ERROR = 1_105;

/** @type {import('./pod.js').Serve} */
export function serveMysql({ name, work, connections }) {
  let connectionId = 0;

  /** One connection as the server has it; mysql2's types say little of that. @param {any} side */
  function accept(side) {
    connectionId += 1;
    /** @type {import('node:net').Socket} */
    const socket = side.stream;
    let lane = '';
    /** Packets of one command are counted from 0, its answer begins with 1. @param {() => void} write */
    const answer = (write) => {
      side.sequenceId = 1;
      write();
      side.sequenceId = 0;
    };
    async function answerQuery() {
      const end = work.begin();
      socket.once('close', end);
      const well = await work.take(lane, () => socket.destroyed);
      end();
      socket.off('close', end);
      if (socket.destroyed) return;
      answer(() => {
        if (well) side.writeTextResult([{ pod: name, id: '42', state: 'paid' }], ['pod', 'id', 'state'].map(column));
        else side.writeError({ code: UNKNOWN_ERROR, message: `${name} fails` });
      });
    }
    socket.on('error', () => {});
    side.on('error', () => {});
    side.on('end', () => socket.end());
    side.on('quit', () => socket.end());
    side.on('ping', () => answer(() => side.writeOk()));
    side.on('query', (/** @type {string} */ sql) => {
      if (sql.includes('FROM orders')) void answerQuery();
      else answer(() => side.writeOk());
    });
    side.serverHandshake({
      protocolVersion: 10,
      serverVersion: '8.0.0 playground',
      connectionId,
      statusFlags: 2,
      characterSet: 45,
      capabilityFlags: CAPABILITIES,
      authCallback: (/** @type {{ user: string }} */ { user }, /** @type {(error: null) => void} */ welcome) => {
        lane = `mysql/${user}`;
        connections.count(socket, lane);
        welcome(null);
        side.sequenceId = 0;
      },
    });
  }

  const server = /** @type {any} */ (mysql2).createServer();
  server.on('connection', accept);
  return {
    listen: (address, port) =>
      new Promise((resolve, reject) => {
        // The net.Server inside it.
        const { _server: inner } = server;
        inner.on('error', reject);
        inner.listen(port, address, () => resolve(inner.address().port));
      }),
    async leave() {
      server.close();
    },
  };
}

/** @param {string} name */
const column = (name) => ({
  catalog: 'def',
  schema: '',
  table: '',
  orgTable: '',
  name,
  orgName: name,
  characterSet: 45,
  columnLength: 80,
  columnType: 253,
  flags: 0,
  decimals: 0,
});
