import { type Endpoint, EvenkeelError, endpointAddress } from '../../index.js';
import { resolveTls } from './tls.js';

/** A value, or a function that is asked for it at each new connection: what it returns may change while the process lives. */
export type Asked<T> = T | ((endpoint: Endpoint) => T | Promise<T>);

type Ask = (endpoint: Endpoint) => unknown;

/** What a connection logs in with, as far as it is asked for each time. */
export interface Credentials {
  readonly user?: string;
  readonly password?: string;
  readonly ssl?: object | undefined;
}

/** The functions among the options that say who we are. */
export class CredentialFunctions {
  readonly #functions: readonly (readonly [name: keyof Credentials, ask: Ask])[];
  readonly #host: string | undefined;

  /** @param host What certificates have to be made out to. */
  constructor(functions: Readonly<Partial<Record<keyof Credentials, Ask>>>, host: string | undefined) {
    this.#functions = Object.entries(functions) as [keyof Credentials, Ask][];
    this.#host = host;
  }

  /** Asks all of them. Rejects with EVENKEEL_OPTION, naming the option; no value is in any message. */
  async ask(endpoint: Endpoint): Promise<Credentials> {
    const entries = await Promise.all(
      this.#functions.map(async ([name, ask]) => [
        name,
        this.#checked(name, await answer(name, ask, endpoint), endpoint),
      ]),
    );
    return Object.fromEntries(entries) as Credentials;
  }

  #checked(name: keyof Credentials, value: unknown, endpoint: Endpoint): unknown {
    if (name === 'ssl') return resolveTls(value, this.#host);
    if (typeof value === 'string') return value;
    const got = value === null ? 'null' : typeof value;
    throw failed(endpoint, `the function given as \`${name}\` must return a string, got ${got}`, undefined);
  }
}

async function answer(name: string, ask: Ask, endpoint: Endpoint): Promise<unknown> {
  try {
    return await ask(endpoint);
  } catch (error) {
    const why = error instanceof Error ? error.message : 'it threw what is no Error';
    throw failed(endpoint, `the function given as \`${name}\` failed: ${why}`, error);
  }
}

/** The functions did not answer in time. */
export function credentialsTooLate(endpoint: Endpoint, limitMs: number): EvenkeelError {
  return failed(
    endpoint,
    `the functions given as \`user\`, \`password\` or \`ssl\` took more than ${limitMs} ms`,
    undefined,
  );
}

function failed(endpoint: Endpoint, message: string, cause: unknown): EvenkeelError {
  return new EvenkeelError('EVENKEEL_OPTION', message, {
    endpoint: endpointAddress(endpoint),
    ...(cause !== undefined && { cause }),
  });
}
