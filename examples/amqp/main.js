// @ts-check
/** What an application writes: a connection manager per use, whose broker evenkeel chooses. `node examples/amqp/demo.js` runs it. */
import { connect } from 'amqp-connection-manager';
import { createBrokers } from 'evenkeel/amqp';

/** @param {import('evenkeel/amqp').BrokersOptions} [options] none in a pod */
export function openBrokers(options) {
  const brokers = createBrokers('amqp://rabbit.shop:5672', options);
  return { brokers, connectManager: () => brokers.connectManager(connect) };
}
