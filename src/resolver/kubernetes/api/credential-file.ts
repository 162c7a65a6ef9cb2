import { promises as fs } from 'node:fs';
import type { Clock } from '../../../runtime/clock.js';

/**
 * How long the contents of a credential file are used before they are read again, in ms. That is less than a minute, so that a request
 * never carries contents that are older than a minute.
 */
const REFRESH_AFTER_MS = 50_000;

/**
 * A file with credentials, such as a token, that another program replaces from time to time. While the file is unreadable or empty, the
 * contents read last stay in use.
 */
export class CredentialFile {
  readonly path: string;
  readonly #clock: Clock;
  #text: string | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<string> | undefined;

  constructor(path: string, clock: Clock) {
    this.path = path;
    this.#clock = clock;
  }

  /** Returns the file's text without surrounding space. Rejects only if the file could never be read. */
  async read(): Promise<string> {
    if (this.#text !== undefined && this.#clock.now() - this.#readAtMs < REFRESH_AFTER_MS) return this.#text;
    this.#reading ??= this.#load().finally(() => {
      this.#reading = undefined;
    });
    return await this.#reading;
  }

  /** The next `read` reads the file again if the contents were read before `atMs`. */
  expire(atMs: number): void {
    if (this.#readAtMs <= atMs) this.#readAtMs = Number.NEGATIVE_INFINITY;
  }

  async #load(): Promise<string> {
    const startedAtMs = this.#clock.now();
    try {
      const text = (await fs.readFile(this.path, 'utf8')).trim();
      if (text === '') throw new Error(`${this.path} is empty`);
      this.#text = text;
      this.#readAtMs = startedAtMs;
    } catch (error) {
      if (this.#text === undefined) throw error;
    }
    return this.#text;
  }
}
