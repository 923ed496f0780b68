//! The same three questions as tools of MCP, at `/mcp`: one ledger with the routes, and the same answers.

use std::sync::Arc;

use bytes::Bytes;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde::Serialize;
use serde_json::{Map, Value};
use tower::Layer as _;
use tower_x402::{
    BuildError, Merchant, Price, Redelivery,
    mcp::{Mcp, McpLayer},
    protocol::Amount,
};

use super::{Service, discovery, problem::Problem, request};

/// The server and its prices.
type Sold = Mcp<StreamableHttpService<Tools, LocalSessionManager>>;

/// Returns the tools, sold; `None` if the merchant accepts only transfers, by which no client of MCP pays.
///
/// # Errors
/// The same as for the routes.
pub(crate) fn server(
    service: Arc<Service>,
    merchant: &Merchant,
    price: Amount,
    kept: Redelivery,
) -> Result<Option<Sold>, BuildError> {
    let layer = match prices(&service, merchant, price) {
        Ok(layer) => layer.redeliver(kept),
        Err(BuildError::NoStandard) => return Ok(None),
        Err(error) => return Err(error),
    };
    let tools = Tools(service);
    // Hosts are not restricted: this service is public, under any name.
    let config = StreamableHttpServerConfig::default().disable_allowed_hosts();
    let server = StreamableHttpService::new(move || Ok(tools.clone()), LocalSessionManager::default().into(), config);
    Ok(Some(layer.layer(server)))
}

fn prices(service: &Arc<Service>, merchant: &Merchant, price: Amount) -> Result<McpLayer, BuildError> {
    let priced = move |asked: Result<(), Problem>| match asked {
        Ok(()) => Price::Charge(price),
        Err(refusal) => Price::Refuse(refusal.into_http().into()),
    };
    let question = move |arguments: &Map<String, Value>| priced(request::query(&body(arguments)).map(drop));
    let allowed = service.allowed.clone();
    let filters = move |arguments: &Map<String, Value>| priced(request::filters(&allowed, &body(arguments)).map(drop));
    merchant
        .tools()
        .price_with("demand_insights", question)?
        .label("demand_insights", "Demand insights")?
        .price_with("ai_early_adopters_goals", question)?
        .label("ai_early_adopters_goals", "AI early adopters' goals")?
        .price_with("agent_conversions", filters)?
        .label("agent_conversions", "Agent conversions")
        .map(|layer| layer.free("analytics_filters").deny_unlisted())
}

/// Returns the arguments in the form that the routes take.
fn body(arguments: &Map<String, Value>) -> Bytes {
    serde_json::to_vec(arguments).unwrap_or_default().into()
}

#[derive(Clone, Debug)]
pub(crate) struct Tools(Arc<Service>);

impl Tools {
    async fn answer(&self, tool: &str, arguments: &Map<String, Value>) -> Option<Result<Value, Problem>> {
        let (service, body) = (&self.0, body(arguments));
        Some(match tool {
            "demand_insights" => match request::query(&body) {
                Ok(query) => service.insights(&query).await.map(json),
                Err(refusal) => Err(refusal),
            },
            "ai_early_adopters_goals" => match request::query(&body) {
                Ok(query) => service.goals(&query).await.map(json),
                Err(refusal) => Err(refusal),
            },
            "agent_conversions" => {
                request::filters(&service.allowed, &body).map(|filters| json(service.conversions(&filters)))
            }
            "analytics_filters" => Ok(json(&service.allowed)),
            _ => return None,
        })
    }
}

fn json(answer: impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build()).with_instructions(
            "Answers from three datasets, sold by the call; analytics_filters is free, and lists the values that filters may have.",
        )
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let described = [
            ("demand_insights", discovery::insights()),
            ("ai_early_adopters_goals", discovery::goals()),
            ("agent_conversions", discovery::conversions(&self.0.allowed)),
        ];
        let paid = described.into_iter().map(|(name, described)| {
            let [input, output] = [described.input, described.output].map(|schema| Arc::new(object(schema)));
            Tool::new(name, described.about, input).with_raw_output_schema(output)
        });
        let none = object(serde_json::json!({ "type": "object" }));
        let filters = Tool::new("analytics_filters", "The values that filters may have", none);
        Ok(ListToolsResult::with_all_items(paid.chain([filters]).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let answer = self.answer(&request.name, &request.arguments.unwrap_or_default()).await;
        let answer = answer.ok_or_else(|| ErrorData::invalid_params("there is no such tool", None))?;
        Ok(match answer {
            Ok(answer) => CallToolResult::structured(answer).into(),
            Err(refusal) => {
                let text = String::from_utf8_lossy(refusal.into_http().body()).into_owned();
                CallToolResult::error(vec![ContentBlock::text(text)]).into()
            }
        })
    }
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}
