import { checkPeer } from '../kit/index.js';

checkPeer('@grpc/grpc-js', 'evenkeel/grpc-js', import.meta.url);
