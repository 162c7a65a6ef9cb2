/** The server's side of PostgreSQL's protocol, version 3, as far as a pool of pg takes it: no password, and simple queries. */

const SSL_REQUEST = 80_877_103;

/** A message: its kind, its length, its content. @param {string} kind @param {Buffer} content */
function message(kind, content = Buffer.alloc(0)) {
  const head = Buffer.alloc(5);
  head.write(kind, 0, 'latin1');
  head.writeInt32BE(content.length + 4, 1);
  return Buffer.concat([head, content]);
}

const int16 = (/** @type {number} */ value) => Buffer.from([value >> 8, value & 255]);
const int32 = (/** @type {number} */ value) => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};
const text = (/** @type {string} */ value) => Buffer.from(`${value}\0`);

const ready = message('Z', Buffer.from('I'));
const greeting = Buffer.concat([
  // No password is asked for.
  message('R', int32(0)),
  message('S', Buffer.concat([text('server_version'), text('17.0')])),
  message('S', Buffer.concat([text('client_encoding'), text('UTF8')])),
  message('K', Buffer.concat([int32(1), int32(1)])),
  ready,
]);

/** One row of texts. @param {readonly string[]} row */
function rowOf(row) {
  const TEXT = 25;
  const fields = row.map((_, index) =>
    Buffer.concat([text(`column${index + 1}`), int32(0), int16(0), int32(TEXT), int16(0xffff), int32(-1), int16(0)]),
  );
  const values = row.map((value) => Buffer.concat([int32(Buffer.byteLength(value)), Buffer.from(value)]));
  return Buffer.concat([
    message('T', Buffer.concat([int16(row.length), ...fields])),
    message('D', Buffer.concat([int16(row.length), ...values])),
  ]);
}

/**
 * Serves one connection.
 * @param {import('node:net').Socket} socket
 * @param {(sql: string, answer: (row: readonly string[]) => void) => void} query answers with a row of texts; one without columns: no row
 */
export function servePostgres(socket, query) {
  let rest = Buffer.alloc(0);
  let isStarted = false;
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (;;) {
      // The first message has no kind.
      const from = isStarted ? 1 : 0;
      if (rest.length < from + 4) return;
      const end = from + rest.readInt32BE(from);
      if (rest.length < end) return;
      const kind = isStarted ? String.fromCharCode(/** @type {number} */ (rest[0])) : undefined;
      const content = rest.subarray(from + 4, end);
      rest = rest.subarray(end);
      take(kind, content);
    }
  });

  /** @param {string | undefined} kind @param {Buffer} content */
  function take(kind, content) {
    if (kind === undefined) {
      if (content.readInt32BE(0) === SSL_REQUEST) {
        socket.write('N');
        return;
      }
      isStarted = true;
      socket.write(greeting);
    } else if (kind === 'Q') {
      const sql = content.toString('utf8', 0, content.length - 1);
      query(sql, (row) => {
        if (socket.destroyed) return;
        const rows = row.length === 0 ? [] : [rowOf(row)];
        socket.write(Buffer.concat([...rows, message('C', text(`SELECT ${rows.length}`)), ready]));
      });
    } else if (kind === 'X') socket.end();
    else throw new Error(`a message of kind ${kind} is not understood`);
  }
}
