import { checkPeer } from '../kit/index.js';

checkPeer('pg', 'evenkeel/pg', import.meta.url);
