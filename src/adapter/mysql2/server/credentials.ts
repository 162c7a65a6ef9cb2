import { type Endpoint, EvenkeelError, isEvenkeelError } from '../../../index.js';
import { ask, askedError } from '../../kit/index.js';
import { resolveTls } from './tls.js';

type Ask = (endpoint: Endpoint) => unknown;

/** What a connection logs in with, as far as it is asked for each time. */
export interface Credentials {
  readonly user?: string;
  readonly password?: string;
  readonly ssl?: object | undefined;
}

/** The functions among the options that say who we are. */
export class CredentialFunctions {
  readonly #functions: readonly (readonly [name: keyof Credentials, wanted: Ask])[];
  readonly #host: string | undefined;

  /** @param host What certificates have to be made out to. */
  constructor(functions: Readonly<Partial<Record<keyof Credentials, Ask>>>, host: string | undefined) {
    this.#functions = Object.entries(functions) as [keyof Credentials, Ask][];
    this.#host = host;
  }

  /** Asks all of them. Rejects with EVENKEEL_OPTION, naming the option; no value is in any message. */
  async ask(endpoint: Endpoint): Promise<Credentials> {
    const entries = await Promise.all(
      this.#functions.map(async ([name, wanted]) => [
        name,
        await ask(name, wanted, endpoint, (value) => this.#checked(name, value)),
      ]),
    ).catch((error) => {
      throw ofServer(error);
    });
    return Object.fromEntries(entries) as Credentials;
  }

  #checked(name: keyof Credentials, value: unknown): unknown {
    if (name === 'ssl') return resolveTls(value, this.#host);
    if (typeof value === 'string') return value;
    throw new TypeError(`it must return a string, got ${value === null ? 'null' : typeof value}`);
  }
}

/** The functions did not answer in time. */
export function credentialsTooLate(endpoint: Endpoint, limitMs: number): EvenkeelError {
  return ofServer(askedError('user", "password" or "ssl', endpoint, `took more than ${limitMs} ms`)) as EvenkeelError;
}

/**
 * The same error, for a pool that counts it as one of the server's: while no connection is open callers are told at once, as of a
 * password that is refused, where a request over HTTP would wait for the function to answer.
 */
function ofServer(error: unknown): unknown {
  if (!isEvenkeelError(error)) return error;
  const { code, message, cause, endpoint } = error;
  return new EvenkeelError(code, message, { cause, ...(endpoint !== undefined && { endpoint }) });
}
