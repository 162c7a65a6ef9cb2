/** Typed access to the real RabbitMQ brokers of the tests in `rabbitmq/brokers.mjs`. */

import type { ServerProcess } from '../programs/server-process.js';

/** One node. */
export interface Broker extends ServerProcess {
  readonly endpoint: { readonly name: string; readonly address: string; readonly port: number };
  /** Runs rabbitmqctl against it. */
  control(...args: string[]): Promise<string>;
  /** Hands over its queue leaders and closes its connections, like the `preStop` hook of RabbitMQ's operator. */
  drain(): Promise<void>;
  /** Open connections of applications. */
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

// Plain JavaScript, because the example uses it too; imported by an address the compiler does not follow.
const brokers = (await import(new URL('rabbitmq/brokers.mjs', import.meta.url).href)) as BrokersModule;

/** Whether RabbitMQ is missing: `describe.skipIf(noRabbitmq)(titled('…'), …)`. */
export const noRabbitmq: boolean = brokers.rabbitmqPath === undefined;

/** A title that says, if RabbitMQ is missing, why its tests did not run and how to change that. */
export const titled = (title: string): string =>
  noRabbitmq ? `${title} (not run, there is no RabbitMQ here; to run it: ${brokers.rabbitmqHint})` : title;

/** Starts a cluster of `count` brokers. They end with this process, however it ends. */
export function startBrokers(count: number): Promise<RabbitWorld> {
  return brokers.RabbitBrokers.start(count);
}
