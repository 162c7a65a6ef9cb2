// @ts-check
/** What runs in the cluster. */

/** @typedef {{ name: string, ports: readonly { name: string, port: number }[] }} Workload ports: those of its Service, by protocol */

/** One Deployment that serves both protocols from the same pods. @type {Workload} */
export const orders = {
  name: 'orders',
  ports: [
    { name: 'http', port: 80 },
    { name: 'grpc', port: 50051 },
  ],
};
