import { agentsScenario } from './agents-scenario.ts';
import { simulationTest } from './seeds.ts';

simulationTest(agentsScenario, 30);
