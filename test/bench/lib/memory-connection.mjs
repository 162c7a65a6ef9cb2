import { Duplex } from 'node:stream';

/** The server's end of a connection in memory. */
export class Connection extends Duplex {
  /** @type {() => void} */
  answered = () => {};

  /** @override */
  _read() {}

  /** @override @param {unknown} _chunk @param {string} _encoding @param {() => void} done */
  _write(_chunk, _encoding, done) {
    done();
    this.answered();
  }

  /** @override @param {unknown} _chunks @param {() => void} done */
  _writev(_chunks, done) {
    done();
    this.answered();
  }

  setTimeout() {
    return this;
  }

  setNoDelay() {}
  setKeepAlive() {}
}
