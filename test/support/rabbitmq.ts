/** The real RabbitMQ brokers of the tests, with types; what they are: `rabbitmq/brokers.mjs`. */

import type { ServerProcess } from './server-process.js';

/** One node. */
export interface Broker extends ServerProcess {
  readonly endpoint: { readonly name: string; readonly address: string; readonly port: number };
  /** Runs rabbitmqctl against it. */
  control(...args: string[]): Promise<string>;
  /** Hands its queue leaders to others and closes what is connected, as the `preStop` hook of RabbitMQ's operator has it do. */
  drain(): Promise<void>;
  /** Connections of applications that are open on it. */
  connections(): Promise<number>;
  accepts(): Promise<boolean>;
}

/** A cluster of them. */
export interface RabbitWorld extends AsyncDisposable {
  readonly all: readonly Broker[];
  readonly endpoints: Broker['endpoint'][];
  at(index: number): Broker;
  /** Ends all of them and removes their data. */
  close(): Promise<void>;
}

interface BrokersModule {
  readonly rabbitmqPath: string | undefined;
  readonly rabbitmqHint: string;
  readonly RabbitBrokers: {
    start(count: number): Promise<RabbitWorld>;
  };
}

// Plain JavaScript, for the example uses it too; so its address is not one the compiler would follow.
const brokers = (await import(new URL('rabbitmq/brokers.mjs', import.meta.url).href)) as BrokersModule;

/** Whether there is no RabbitMQ to test against: `describe.skipIf(noRabbitmq)(titled('…'), …)`. */
export const noRabbitmq: boolean = brokers.rabbitmqPath === undefined;

/** A title that says, where there is no RabbitMQ, why nothing under it ran and what would change that. */
export const titled = (title: string): string =>
  noRabbitmq ? `${title} (not run, there is no RabbitMQ here; to run it: ${brokers.rabbitmqHint})` : title;

/** Starts a cluster of `count` brokers. They end with this process, however it ends. */
export function startBrokers(count: number): Promise<RabbitWorld> {
  return brokers.RabbitBrokers.start(count);
}
