import { type AmqpConnectionManager, connect as connectManager } from 'amqp-connection-manager';
import { type ChannelModel, connect } from 'amqplib';
import { leastLoaded } from 'evenkeel';
import { type Brokers, type ConnectionLeaving, createBrokers } from 'evenkeel/amqp';
import { Connection } from 'rabbitmq-client';

const brokers: Brokers = createBrokers('amqps://shop:secret@rabbit.shop/orders', {
  picker: leastLoaded(),
  rebalance: { ratioPerMinute: 0.2 },
  onLeaving: ({ reason }: ConnectionLeaving, client) => void [reason, 'reconnect' in client],
});
const connection: ChannelModel = await brokers.connect(connect, { key: 'a', socketOptions: { noDelay: true } });
connection.once('leaving', ({ untilMs }: ConnectionLeaving) => void untilMs);
const manager: AmqpConnectionManager = brokers.connectManager(connectManager, { heartbeatIntervalInSeconds: 10 });
manager.on('leaving', () => manager.reconnect());
const client: Connection = brokers.createConnection(Connection, { heartbeat: 10, tls: { ca: 'PEM' } });
void [client.ready, brokers.balancer.snapshot()];
// @ts-expect-error: an option that does not exist
createBrokers('amqp://rabbit.shop', { leaveSpread: 1 });
// @ts-expect-error: evenkeel finds the servers
brokers.connectManager(connectManager, { findServers: async () => [] });
// @ts-expect-error: the URL is that of createBrokers
brokers.createConnection(Connection, { url: 'amqp://localhost' });
