// @ts-check
/** RabbitMQ brokers on this machine, one cluster, and an API server for tests in place of Kubernetes. */
import { createApiServer } from '../../test/servers/index.js';
import { RabbitBrokers, rabbitmqHint, rabbitmqPath } from '../../test/support/databases/rabbitmq/brokers.mjs';

/** What is missing, and the command that installs it; undefined if nothing is. */
export const missing =
  rabbitmqPath === undefined ? `This needs RabbitMQ, which is not here.\nTo install it: ${rabbitmqHint}` : undefined;

/** Starts three brokers, and a Service with them as its pods. */
export async function startBrokers() {
  const brokers = await RabbitBrokers.start(3);
  const api = await createApiServer();
  const service = api.service('shop', 'rabbit', { ports: [{ name: 'amqp', port: 5672, targetPort: 'amqp' }] });
  for (const { endpoint } of brokers.all) {
    service.putPod({ name: endpoint.name, address: endpoint.address, ports: { amqp: endpoint.port } });
  }
  return {
    apiUrl: api.url,
    /**
     * What Kubernetes does to a broker's pod in a rolling update: its slice says that it terminates, `preStop` waits until its clients
     * have left, it gets SIGTERM, and comes back.
     * @param {number} index @param {() => Promise<void>} preStop
     */
    async replace(index, preStop) {
      const broker = brokers.at(index);
      service.updatePod(broker.name, { ready: false, terminating: true });
      await preStop();
      await broker.stop();
      await broker.start();
      service.updatePod(broker.name, { ready: true, terminating: false });
    },
    async close() {
      await brokers.close();
      await api.close();
    },
  };
}
