// @ts-check
/** Stock grpc-js in common use: the Service's name, which is one address. Its default policy, pick_first, keeps one connection. */
import { askOver, serviceConfig } from './grpc.js';

/** @type {import('./client.js').CreateClient} */
export const createClient = async ({ servicePorts }) => ({
  ask: askOver(`127.0.0.1:${servicePorts.grpc}`, { 'grpc.service_config': serviceConfig() }),
});
