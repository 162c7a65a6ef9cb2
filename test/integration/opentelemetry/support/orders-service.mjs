/** The gRPC service of the pods: a unary method and one that streams its answer, with strings as messages. */
const unary = {
  path: '/test.Orders/Get',
  requestStream: false,
  responseStream: false,
  requestSerialize: (value) => Buffer.from(value),
  requestDeserialize: (bytes) => String(bytes),
  responseSerialize: (value) => Buffer.from(value),
  responseDeserialize: (bytes) => String(bytes),
};
export const ordersService = { Get: unary, List: { ...unary, path: '/test.Orders/List', responseStream: true } };
