import { simulationTest } from './seeds.ts';
import { storeScenario } from './store-scenario.ts';

simulationTest(storeScenario, 80);
